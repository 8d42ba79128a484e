// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"testing"

	"github.com/wayleave/wayleave/dataplane/nft/internal/testhook"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// Forms returns both configurations: lookups, and chains.
func Forms() []render.ClassesConfig { return []render.ClassesConfig{{}, Chains()} }

// Chains is the form in which all policy is chains.
func Chains() render.ClassesConfig {
	return render.ClassesConfig{TestHook: testhook.Chains()}
}

// EachForm runs a test in both forms. Whatever proves something about packets holds in both.
func EachForm(t *testing.T, test func(*testing.T, render.ClassesConfig)) {
	t.Helper()
	for _, classes := range Forms() {
		t.Run(FormName(classes), func(t *testing.T) { test(t, classes) })
	}
}

// EachFormInParallel is EachForm with both forms at the same time, for tests that do not depend on how fast
// the machine is.
func EachFormInParallel(t *testing.T, test func(*testing.T, render.ClassesConfig)) {
	t.Helper()
	for _, classes := range Forms() {
		t.Run(FormName(classes), func(t *testing.T) {
			t.Parallel()
			test(t, classes)
		})
	}
}

// FormName is what tests call a form.
func FormName(classes render.ClassesConfig) string {
	if classes.TestHook.HasChains() {
		return "chains"
	}
	return "lookups"
}
