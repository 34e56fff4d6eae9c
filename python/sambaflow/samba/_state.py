# SPDX-License-Identifier: Apache-2.0
"""What tensors must find without importing what imports them: the tracer at work and the global session."""
tracer = None
session = None
