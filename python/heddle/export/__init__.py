# SPDX-License-Identifier: Apache-2.0
"""Policies in forms that other programs run: an ONNX model, and C source without dependences."""
