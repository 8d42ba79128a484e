// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"testing"

	"github.com/wayleave/wayleave/dataplane/nft/internal/testhook"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// Forms returns a configuration with lookups and one with chains.
func Forms() []render.ClassesConfig { return []render.ClassesConfig{{}, Chains()} }

// Chains returns the configuration with which all policy is written as chains.
func Chains() render.ClassesConfig {
	return render.ClassesConfig{TestHook: testhook.Chains()}
}

// EachForm runs a test twice, with lookups and with chains. Packets must get the same verdicts with
// both.
func EachForm(t *testing.T, test func(*testing.T, render.ClassesConfig)) {
	t.Helper()
	for _, classes := range Forms() {
		t.Run(FormName(classes), func(t *testing.T) { test(t, classes) })
	}
}

// EachFormInParallel does what EachForm does, but runs the tests of lookups and of chains at the
// same time. It is for tests that do not depend on the speed of the machine.
func EachFormInParallel(t *testing.T, test func(*testing.T, render.ClassesConfig)) {
	t.Helper()
	for _, classes := range Forms() {
		t.Run(FormName(classes), func(t *testing.T) {
			t.Parallel()
			test(t, classes)
		})
	}
}

// FormName returns "lookups" or "chains", whichever this configuration selects.
func FormName(classes render.ClassesConfig) string {
	if classes.TestHook.HasChains() {
		return "chains"
	}
	return "lookups"
}
