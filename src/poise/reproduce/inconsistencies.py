"""Where the paper disagrees with itself. Sections, equations, tables and figures are numbered as in `paper.py`."""

from __future__ import annotations

from typing import NamedTuple


class Inconsistency(NamedTuple):
    """A place where the paper disagrees with itself, and how."""

    where: str
    what: str
    cell: str = ""
    """The cell or the column of a table that it concerns, if there is one."""


INCONSISTENCIES: tuple[Inconsistency, ...] = (
    Inconsistency(
        "Tables 3a, 9d: CTVAE, 5 styles of 3 classes",
        "the median 37 is above the maximum 35; mean 31.6 and deviation 2.8 leave about 32",
        "joint ctvae 5x3",
    ),
    Inconsistency(
        "Tables 2, 9b: CTVAE-info, 4 classes of DISPLACEMENT",
        "78 in one, [75, 76, 77] in the other, with which the mean 75.9 agrees",
        "displacement ctvae-info 4",
    ),
    Inconsistency("Table 3a: 2 styles of 3 classes", "8 joint styles are printed; there are 9", "joint 2x3"),
    Inconsistency(
        "Figure 6: 6 classes of DESTINATION",
        "0.93 is given as Table 9c's; it is the maximum, the median is 84",
        "destination ctvae-style 6",
    ),
    Inconsistency(
        "Tables 9a, 9b: 3 classes of DISPLACEMENT",
        "medians 72, 71, 74, 96 in one, 83, 83, 84, 98 in the other; CTVAE-style's minimum is 89 and 15",
        "displacement 3",
    ),
    Inconsistency(
        "Tables 9a, 9c: 3 classes of DESTINATION",
        "medians 82, 79, 82, 97 in one, 82, 81, 81, 97 in the other; CTVAE-style's minimum is 91 and 68",
        "destination 3",
    ),
    Inconsistency(
        "Tables 9b, 11b: captions",
        "the same classes are roughly uniform in one and non-uniform in the other, and in Section 6.1",
    ),
    Inconsistency(
        "Tables 9, 11: captions",
        "CTVAE-style beats the baselines in all experiments by the first; its mean is below the best baseline's in "
        "SPEED (72.1, 85.8), DISPLACEMENT 3 and 6 (81.4, 83.6; 68.1, 70.2) and DESTINATION 4 (77.0, 77.4)",
    ),
    Inconsistency(
        "Table 11d: 5 styles of 4 classes",
        "two means are bold, 20.8 and 50.3; in place of 20.8, its deviation 1.0",
    ),
    Inconsistency(
        "Tables 4, 14: NLD", "CTVAE has -7.94 and -8.0; Table 4 names no style, Table 14 is about DESTINATION"
    ),
    Inconsistency(
        "Tables 4, 13: NLD of Cheetah",
        "-0.28, Table 4's for CTVAE-style, is SPEED's, the best of four styles (-0.24, -0.16, -0.22)",
    ),
    Inconsistency(
        "Table 4: KL per step",
        "2.55 per step would be 61 nats in 4 dimensions over 24 steps; the published code sums it over a trajectory",
    ),
    Inconsistency(
        "Section 6.3, Tables 4, 14: imitation",
        "no degradation by the text; from -7.94 to -7.83 in Table 4, and a slight one by Table 14's caption",
    ),
    Inconsistency(
        "Section 6.2, Figures 3, 5", "rollouts end close to the net by the text; they have class 1, which is mid"
    ),
    Inconsistency(
        "Sections 6.1, 6.5: names", "the policy of 0.92 and those trained on noisy labels are CTVAE-style, not CTVAE"
    ),
    Inconsistency("Section 7, Appendix A: names", "self-consistency is written for style-consistency"),
    Inconsistency(
        "Table 7, Appendix A: CTVAE-mi", "its dynamics are fine-tuned by the text; n_env is 0 for basketball"
    ),
    Inconsistency(
        "Tables 15, 16: captions", "n_label and n_dynamics, as Table 7 has them, are written with superscripts"
    ),
    Inconsistency(
        "Sections 3, 5: the policy", "a map from states to actions, then a density; rollouts take it without a label"
    ),
    Inconsistency(
        "Equations 4 to 6, 8, 12, 13, Figure 6: starts",
        "the starts of rollouts are not specified; Figure 6 draws positions from p(y), a distribution of labels",
    ),
    Inconsistency(
        "Equation 6, Section 4: the joint metric",
        "the equation adds up one loss per style; what is measured is 0 if all styles are right, else 1",
    ),
    Inconsistency("Equations 2, 10, 11: the encoder", "q_phi in the expectation, q_theta in the KL"),
    Inconsistency("Equation 10", "a full stop in place of the comma in q(z | tau, y)"),
    Inconsistency(
        "Equation 11", "the minimum over psi is inside the expectation: another auxiliary network for each z"
    ),
    Inconsistency(
        "Equations 7, 11, 12: psi", "one letter for three networks: label approximator, auxiliary network, r"
    ),
    Inconsistency("Equations 12, 13: z", "rollouts are conditioned on a z whose distribution is not given"),
    Inconsistency("Equation 13", "the CTVAE loss on the right lacks its encoder"),
    Inconsistency("Equation 14", "the minimum is over varphi_mu twice, and not over varphi_sigma"),
)
"""The inconsistencies of the paper."""
