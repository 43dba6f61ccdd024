"""Fitted models: the scikit-learn estimators, the committee and the model file."""
