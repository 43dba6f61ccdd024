"""A survey simulator with known truth: demonstration data and a test bed for calibration."""

from __future__ import annotations

from gpzed.simulate.survey import SimulatedSurvey, simulate_survey
from gpzed.simulate.truth import TruePdf, true_pdf

__all__ = ["SimulatedSurvey", "TruePdf", "simulate_survey", "true_pdf"]
