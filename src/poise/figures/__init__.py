"""Figures of rollouts, gaits, scores, learning curves, style-consistency, feasibility and realism; the HTML report.

This is the only package that imports matplotlib, and only its objects (`Figure`, never pyplot), so that drawing needs
no display, shares no state between figures and is safe in threads. `import poise` does not import it.
"""

from .bodies import animate, check_animation, draw_gaits, draw_strips, first_gait, save_animation
from .canvas import encode, save
from .consistency import draw_classes, draw_consistency
from .curves import draw_curves
from .feasibility import draw_reach, draw_reach_bars
from .front import draw_front, draw_guidance
from .noise import draw_noise
from .panels import Panel, PanelGroup, ReachMap, RolloutPanels, draw_panels, sample_panels
from .report_page import page, write_report
from .rollouts import Rings, draw_rollouts
from .scores import draw_scores

__all__ = [
    "Panel",
    "PanelGroup",
    "ReachMap",
    "Rings",
    "RolloutPanels",
    "animate",
    "check_animation",
    "draw_classes",
    "draw_consistency",
    "draw_curves",
    "draw_front",
    "draw_gaits",
    "draw_guidance",
    "draw_noise",
    "draw_panels",
    "draw_reach",
    "draw_reach_bars",
    "draw_rollouts",
    "draw_scores",
    "draw_strips",
    "encode",
    "first_gait",
    "page",
    "sample_panels",
    "save",
    "save_animation",
    "write_report",
]
