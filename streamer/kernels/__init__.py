"""Laws and structures that compiled functions of both wings share."""
