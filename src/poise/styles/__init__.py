"""Styles: labeling functions, their scores and labels, label spaces, inspection before training, augmentation."""
