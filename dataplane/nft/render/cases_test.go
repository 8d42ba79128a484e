// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// TestNumberedCases holds the flows of each case against the rendered table and the reference evaluator.
func TestNumberedCases(t *testing.T) { nfttest.EachFormInParallel(t, testNumberedCases) }

func testNumberedCases(t *testing.T, classes render.ClassesConfig) {
	for _, n := range nfttest.NumberedCases(t, "testdata") {
		t.Run(n.Name, func(t *testing.T) { n.Run(t, classes, func(*nfttest.Cluster) {}) })
	}
}

// TestEveryCaseIsNamed: all numbered cases of selection, of actions, of matching and of hosts that
// flows can show are among the cases here and those of host endpoints. The others are about what
// flows cannot show, and scripts of the graph have them.
func TestEveryCaseIsNamed(t *testing.T) {
	named := map[int]bool{}
	number := regexp.MustCompile(`S(\d+)`)
	note := func(name string) {
		for _, m := range number.FindAllStringSubmatch(name, -1) {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			named[n] = true
		}
	}
	for _, n := range nfttest.NumberedCases(t, "testdata") {
		note(n.Name)
	}
	for _, h := range hostCases() {
		note(h.name)
	}
	for _, section := range [][2]int{{1, 78}, {103, 124}, {167, 167}, {176, 176}} {
		for n := section[0]; n <= section[1]; n++ {
			require.True(t, named[n], fmt.Sprintf("S%d", n))
		}
	}
}
