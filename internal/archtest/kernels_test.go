// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKernelsRunAllKernelTests checks that scripts/test-kernels lists each package whose tests
// create a network namespace, except the packages that its comment excludes.
func TestKernelsRunAllKernelTests(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "scripts", "test-kernels"))
	require.NoError(t, err)
	list := regexp.MustCompile(`(?s)\npackages=\(\n(.*?)\n\)`).FindSubmatch(script)
	require.NotNil(t, list)
	named := strings.Fields(string(list[1]))
	leftOut := regexp.MustCompile(`^(examples|tools|datastore/kubernetes|internal/archtest|internal/netns/nstest)(/|$)`)
	var missing []string
	for _, src := range sources(t) {
		kernel := slices.Contains(importsOf(src), module+"/internal/netns/nstest")
		if kernel && src.isTest() && !leftOut.MatchString(src.dir) && !slices.Contains(named, src.dir) {
			missing = append(missing, src.dir)
		}
	}
	slices.Sort(missing)
	report(t, "packages with kernel tests that scripts/test-kernels does not run", slices.Compact(missing))
}
