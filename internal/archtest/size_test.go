// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"testing"
)

const (
	maxFileLines = 800
	maxFuncLines = 100
)

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if n := src.lines(src.file); n > maxFileLines {
			offenders = append(offenders, fmt.Sprintf("%s: %d lines, at most %d", src.path, n, maxFileLines))
		}
		for _, decl := range src.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := src.lines(fn); n > maxFuncLines {
				offenders = append(offenders, fmt.Sprintf("%s: %s has %d lines, at most %d", src.path, fn.Name.Name, n, maxFuncLines))
			}
		}
	}
	report(t, "files and functions that have grown too large", offenders)
}

// TestForbidden keeps out what has bitten others: code that runs by being imported, and comparisons
// that go by reflection.
func TestForbidden(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if src.isTest() {
			continue
		}
		ast.Inspect(src.file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				if x.Recv == nil && x.Name.Name == "init" {
					offenders = append(offenders, src.path+": func init")
				}
			case *ast.SelectorExpr:
				if pkg, ok := x.X.(*ast.Ident); ok && pkg.Name == "reflect" && x.Sel.Name == "DeepEqual" {
					offenders = append(offenders, src.path+": reflect.DeepEqual")
				}
			}
			return true
		})
	}
	report(t, "forbidden constructs", offenders)
}
