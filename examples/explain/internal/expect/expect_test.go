// SPDX-License-Identifier: Apache-2.0

package expect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/explain/internal/expect"
)

func TestParse(t *testing.T) {
	list, err := expect.Parse("f.yaml", []byte(`
expect:
- from: shop/web
  to: [shop/api, 10.0.0.1]
  port: tcp/80
  allow: true
- {name: no way out, from: [a/b], to: c/d, port: [http, icmp], allow: false}
`))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, 3, list[0].Line)
	require.Equal(t, []string{"shop/web"}, list[0].From)
	require.Equal(t, []string{"shop/api", "10.0.0.1"}, list[0].To)
	require.True(t, list[0].Allow)
	require.Equal(t, "no way out", list[1].Name)
	require.Equal(t, 7, list[1].Line)
	require.Len(t, list[1].Ports, 2)
	require.False(t, list[1].Allow)
}

func TestParseIsStrict(t *testing.T) {
	const good = "from: a/b, to: c/d, port: tcp/80, allow: true"
	for _, row := range []struct{ name, text, want string }{
		{"nothing", "", "the file has no expectations"},
		{"comment", "# none\n", "the file has no expectations"},
		{"null", "expect:\n", "at least one"},
		{"empty", "expect: []\n", "at least one"},
		{"other field", "expects: []\n", "field expects not found"},
		{"unknown field", "expect: [{" + good + ", frob: 1}]", "field frob not found"},
		{"twice", "expect: [{" + good + ", allow: false}]", `"allow" already`},
		{"two documents", "expect: [{" + good + "}]\n---\nexpect: []\n", "one document"},
		{"no from", "expect: [{to: c/d, port: tcp/80, allow: true}]", "f.yaml: line 1: expect[0]: from is missing"},
		{"no to", "expect: [{from: c/d, port: tcp/80, allow: true}]", "to is missing"},
		{"no port", "expect: [{from: a/b, to: c/d, allow: true}]", "port is missing"},
		{"no allow", "expect: [{from: a/b, to: c/d, port: tcp/80}]", "allow is missing"},
		{"null allow", "expect: [{from: a/b, to: c/d, port: tcp/80, allow: }]", "allow is missing"},
		{"null from", "expect: [{from: , to: c/d, port: tcp/80, allow: true}]", "from"},
		{"null entry", "expect: [null, {" + good + "}]", "an item of the list is empty"},
		{"null entry alone", "expect: [null]", "an item of the list is empty"},
		{"empty list", "expect: [{from: [], to: c/d, port: tcp/80, allow: true}]", "the list is empty"},
		{"empty text", "expect: [{from: '', to: c/d, port: tcp/80, allow: true}]", "want a text"},
		{"mapping", "expect: [{from: {pod: a/b}, to: c/d, port: tcp/80, allow: true}]", "want a text"},
		{"null in list", "expect: [{from: [a/b, null], to: c/d, port: tcp/80, allow: true}]", "want a text"},
		{"bad port", "expect: [{from: a/b, to: c/d, port: 80, allow: true}]", `"80": want a protocol too`},
		{"bad allow", "expect: [{from: a/b, to: c/d, port: tcp/80, allow: maybe}]", "maybe"},
		{"syntax", "expect: [", "line 1"},
		{"no list", "expect: yes\n", "line 1"},
		{"merge", "<<: {expect: [{" + good + "}, {" + good + "}]}\n", "nothing else"},
		{"scalar", "frob\n", "frob"},
	} {
		t.Run(row.name, func(t *testing.T) {
			list, err := expect.Parse("f.yaml", []byte(row.text))
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, "f.yaml: ")
			require.Nil(t, list)
		})
	}
}

// All errors of a file with the right structure are reported at once.
func TestParseReportsAll(t *testing.T) {
	_, err := expect.Parse("f.yaml", []byte("expect:\n- {from: a/b}\n- {to: c/d, port: x:y, allow: true}\n"))
	for _, want := range []string{
		"line 2: expect[0]: to is", "line 2: expect[0]: allow is", "line 3: expect[1]: from is",
		`line 3: expect[1]: port: "x:y"`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("expect: [{from: a/b, to: c/d, port: tcp/80, allow: true}]")
	f.Add("expect: &a [{from: *a}]")
	f.Add("<<: {expect: [{}]}")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := expect.Parse("f", []byte(text))
		if err != nil {
			return
		}
		require.NotEmpty(t, list)
		for _, x := range list {
			require.NotEmpty(t, x.From)
			require.NotEmpty(t, x.To)
			require.NotEmpty(t, x.Ports)
		}
	})
}
