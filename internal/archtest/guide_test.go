// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The guide to writing a source shows the code that the tests run.
func TestGuideShowsTheSource(t *testing.T) {
	guide, err := os.ReadFile("../../docs/datastore.md")
	require.NoError(t, err)
	own, err := os.ReadFile("../../datastore/example_source_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(own), "// Inventory is a source")
	code, _, ok := strings.Cut(code, "\nfunc ExampleSource")
	require.True(t, ok)
	require.Contains(t, string(guide), strings.TrimSpace(code))
}
