"""Reproduction of every table and figure of the paper's section 7 and of its appendices B and C."""
