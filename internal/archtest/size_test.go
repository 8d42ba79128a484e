// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
				offenders = append(offenders,
					fmt.Sprintf("%s: %s has %d lines, at most %d", src.path, fn.Name.Name, n, maxFuncLines))
			}
		}
	}
	report(t, "files and functions that have grown too large", offenders)
}

// TestNoInitAndNoDeepEqual checks that there is no func init, which runs on import, and no
// reflect.DeepEqual.
func TestNoInitAndNoDeepEqual(t *testing.T) {
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

// TestStructsStaySmall limits the number of fields and methods of the types of the data plane.
// Structs without unexported fields, such as configurations, may have more fields, because they are
// lists of values.
func TestStructsStaySmall(t *testing.T) {
	const maxFields, maxMethods = 12, 30
	fields, methods := map[string]int{}, map[string]int{}
	for _, src := range sources(t) {
		limited := src.dir == "dataplane" || strings.HasPrefix(src.dir, "dataplane/")
		stub := strings.HasSuffix(src.path, "_other.go") // another file declares the type in full
		if src.isTest() || stub || !limited || src.dir == "dataplane/nft/internal/nfttest" {
			continue
		}
		ast.Inspect(src.file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.TypeSpec:
				if st, ok := x.Type.(*ast.StructType); ok {
					fields[src.dir+"."+x.Name.Name] = workingFields(st)
				}
			case *ast.FuncDecl:
				if x.Recv != nil {
					methods[src.dir+"."+receiver(x)]++
				}
			}
			return true
		})
	}
	require.Greater(t, len(fields), 50)
	var offenders []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] > maxFields || methods[name] > maxMethods {
			offenders = append(offenders, fmt.Sprintf("%s: %d fields (at most %d), %d methods (at most %d)",
				name, fields[name], maxFields, methods[name], maxMethods))
		}
	}
	report(t, "structs that have grown too large", offenders)
}

// workingFields returns the number of fields of a struct, or zero if all are exported.
func workingFields(st *ast.StructType) int {
	for _, f := range st.Fields.List {
		if slices.ContainsFunc(f.Names, func(name *ast.Ident) bool { return !name.IsExported() }) {
			return st.Fields.NumFields()
		}
	}
	return 0
}

// receiver returns the name of the type of a method.
func receiver(fn *ast.FuncDecl) string {
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
