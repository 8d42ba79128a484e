// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed wire.go
var wireSource string

// The whole wiring of a daemon is one function of at most 40 lines.
func TestWiringIsShort(t *testing.T) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "wire.go", wireSource, 0)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "wire" {
			require.LessOrEqual(t, files.Position(f.End()).Line-files.Position(f.Pos()).Line+1, 40)
			return
		}
	}
	require.Fail(t, "there is no function wire")
}
