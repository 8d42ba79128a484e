// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"cmp"
	"flag"
	"testing"
)

// WorldFlags are the flags of tests that use random worlds.
type WorldFlags struct{ count, first *uint64 }

// NewWorldFlags registers the flags -worlds and -first.
func NewWorldFlags() WorldFlags {
	return WorldFlags{
		count: flag.Uint64("worlds", 0, "how many random worlds the tests of verdicts take, instead of a sample"),
		first: flag.Uint64("first", 0, "the seed of the first random world"),
	}
}

// Seeds returns the seeds of the random worlds that a test must use. The first seed is the value of
// the flag -first. The number of seeds is the value of the flag -worlds. If -worlds is not set, the
// number is the parameter sample or, if the test runs with -short, the parameter short.
func (f WorldFlags) Seeds(sample, short uint64) (seeds []uint64) {
	if testing.Short() {
		sample = short
	}
	for n := range cmp.Or(*f.count, sample) {
		seeds = append(seeds, *f.first+n)
	}
	return seeds
}
