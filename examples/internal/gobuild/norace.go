// SPDX-License-Identifier: Apache-2.0

//go:build !race

package gobuild

// race is set if the program that calls Build has the race detector.
const race = false
