"""MuJoCo: physics, pictures and Gymnasium. The modules `physics` and `rendering` can be imported without MuJoCo."""
