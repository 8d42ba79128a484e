// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/wayleave/wayleave"

// root is the repository's folder, seen from this package's.
var root = filepath.Join("..", "..")

// source is one parsed Go file of the repository.
type source struct {
	path string // from the root, with slashes
	dir  string // likewise; "." is the root package
	file *ast.File
	fset *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// lines returns how many lines a node takes.
func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// sources parses every Go file of the repository, nested modules included.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && rel != ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out = append(out, source{path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), file: file, fset: fset})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

// report fails the test with all offenders.
func report(t *testing.T, what string, offenders []string) {
	t.Helper()
	require.Empty(t, offenders, "%s:\n%s", what, strings.Join(offenders, "\n"))
}
