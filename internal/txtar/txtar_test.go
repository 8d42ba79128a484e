// SPDX-License-Identifier: Apache-2.0

package txtar_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/txtar"
)

func TestParse(t *testing.T) {
	a := txtar.Parse([]byte("# why\n\n-- update --\na\nb\n-- empty --\n-- update --\n--  --\nlast"))
	require.Equal(t, txtar.Archive{
		Comment: []byte("# why\n\n"),
		Files: []txtar.File{
			{Name: "update", Data: []byte("a\nb\n")},
			{Name: "empty"},
			{Name: "update", Data: []byte("--  --\nlast\n")},
		},
	}, a)
	require.Equal(t, "# why\n\n-- update --\na\nb\n-- empty --\n-- update --\n--  --\nlast\n", string(txtar.Format(a)))
}

func TestFormatAddsNewlines(t *testing.T) {
	a := txtar.Archive{Comment: []byte("c"), Files: []txtar.File{{Name: "x", Data: []byte("y")}}}
	require.Equal(t, "c\n-- x --\ny\n", string(txtar.Format(a)))
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("c\n-- a --\nb"))
	f.Add([]byte("-- a --\r\nb\r\n-- -- --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := txtar.Parse(data)
		require.Equal(t, a, txtar.Parse(txtar.Format(a)))
	})
}
