// SPDX-License-Identifier: Apache-2.0

package nft

import "testing"

// Forms are the two in which the policy of workloads can be written: as lookups, and as chains alone.
func Forms() []ClassesConfig { return []ClassesConfig{{}, {Disabled: true}} }

// EachForm runs a test in both forms. Whatever proves something about packets holds in both.
func EachForm(t *testing.T, test func(*testing.T, ClassesConfig)) {
	t.Helper()
	for _, classes := range Forms() {
		t.Run(FormName(classes), func(t *testing.T) { test(t, classes) })
	}
}

// FormName is what tests call a form.
func FormName(classes ClassesConfig) string {
	if classes.Disabled {
		return "chains"
	}
	return "classes"
}
