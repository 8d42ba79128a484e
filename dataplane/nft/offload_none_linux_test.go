// SPDX-License-Identifier: Apache-2.0

//go:build linux && !guest

package nft_test

// offloads returns nothing: flowtables need a module that not every machine has.
func offloads(_, _ string) []knownVariant { return nil }
