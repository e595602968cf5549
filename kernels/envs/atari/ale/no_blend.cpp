// SPDX-License-Identifier: GPL-2.0-only
// Part of the Atari plug-in, which contains ALE and is under its licence (see emulator.cpp).
//
// Replaces ALE's blending of colours over two frames, which is off, because its tables take two
// thirds of the time to make a console.
#include "ale/environment/phosphor_blend.hpp"

namespace ale
{

PhosphorBlend::PhosphorBlend(stella::OSystem *)
{
}

void PhosphorBlend::process(ALEScreen &)
{
}

} // namespace ale
