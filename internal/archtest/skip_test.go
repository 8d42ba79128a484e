// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayCallSkip has the files that may call Skip of package testing. One is the helper of all tests.
// The other is the harness of the tests of make test-kubernetes, where a missing program is a
// failure.
var mayCallSkip = []string{
	"internal/netns/nstest/nstest.go",
	"datastore/kubernetes/internal/apiserver/programs.go",
}

// skips returns the places where a file calls a function or method that skips a test, except
// nstest.Skip.
func skips(src source) (offenders []string) {
	if !slices.Contains(importsOf(src), "testing") {
		return nil
	}
	ast.Inspect(src.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "nstest" {
			offenders = append(offenders,
				fmt.Sprintf("%s:%d: %s", src.path, src.fset.Position(sel.Pos()).Line, sel.Sel.Name))
		}
		return true
	})
	return offenders
}

// TestSkipsFailUnderCI checks that all tests skip with nstest.Skip, which fails if CI=true is set.
func TestSkipsFailUnderCI(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if !slices.Contains(mayCallSkip, src.path) {
			offenders = append(offenders, skips(src)...)
		}
	}
	report(t, "skips that CI=true does not turn into failures; use nstest.Skip", offenders)
}

func TestSkipsAreFound(t *testing.T) {
	for call, want := range map[string][]string{
		`t.Skip("why")`:           {"x_test.go:3: Skip"},
		`t.Skipf("why %d", 1)`:    {"x_test.go:3: Skipf"},
		`r.t.SkipNow()`:           {"x_test.go:3: SkipNow"},
		`defer t.SkipNow()`:       {"x_test.go:3: SkipNow"},
		`nstest.Skip(t, "why")`:   nil,
		`t.Log(filepath.SkipDir)`: nil,
	} {
		fset := token.NewFileSet()
		text := "package x; import \"testing\"\nfunc TestX(t *testing.T) {\n" + call + "\n}"
		file, err := parser.ParseFile(fset, "x_test.go", text, 0)
		require.NoError(t, err)
		require.Equal(t, want, skips(source{path: "x_test.go", dir: ".", file: file, fset: fset}), call)
	}
}
