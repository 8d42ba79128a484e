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

// root is the repository's folder, relative to this package's.
var root = filepath.Join("..", "..")

// source is one parsed Go file of the repository.
type source struct {
	path string // from the root, with slashes
	dir  string // likewise; "." is the root package
	file *ast.File
	fset *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// lines returns the number of lines of a node.
func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// files returns the paths of all files with a suffix, from the root and with slashes. It includes
// nested modules, but not test data.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var out []string
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
			if d.Name() == "testdata" || d.Name() == "node_modules" || rel == "bin" ||
				(strings.HasPrefix(d.Name(), ".") && rel != ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(rel, suffix) && !strings.HasSuffix(rel, ".pb.go") { // generated
			out = append(out, rel)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

// sources parses every Go file of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, path := range files(t, ".go") {
		fset := token.NewFileSet()
		name := filepath.Join(root, path)
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		out = append(out, source{path: path, dir: filepath.ToSlash(filepath.Dir(path)), file: file, fset: fset})
	}
	return out
}

// report fails the test with all offenders.
func report(t *testing.T, what string, offenders []string) {
	t.Helper()
	require.Empty(t, offenders, "%s:\n%s", what, strings.Join(offenders, "\n"))
}
