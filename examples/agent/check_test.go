// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
)

// 'config --check' and 'run' refuse the same settings, and both report all problems at once.
func TestCheckRefusesWhatRunRefuses(t *testing.T) {
	dir := folderOf(t, map[string]string{"a.yaml": ""})
	file := filepath.Join(dir, "a.yaml")
	manifests := []string{"--manifests", dir}
	for name, row := range map[string]struct {
		args []string
		want []string
		ok   bool // the settings are valid
	}{
		"no source": {want: []string{"--manifests is required"}},
		"a file":    {args: []string{"--manifests", file}, want: []string{"is not a directory: give a directory"}},
		"endpoints": {
			args: append(manifests, "--endpoint-dir", file), want: []string{"endpoint-dir: ", "is not a directory"},
		},
		"table": {
			args: append(manifests, "--table", "a b"), want: []string{`table: "a b" is not a valid name of an nf`},
		},
		"a word of nft": {
			args: append(manifests, "--table", "drop"), want: []string{`table: "drop" is not a valid name`},
		},
		"long prefix": {args: append(manifests, "--interface-prefix", "a-prefix-that-is-too-long"), want: []string{
			"interface-prefix: ",
		}},
		"prefix": {
			args: append(manifests, "--interface-prefix", "a b"), want: []string{"interface-prefix: "},
		},
		"no port": {args: append(manifests, "--http-address", "nowhere"), want: []string{
			`http-address: want HOST:PORT, not "nowhere"`,
		}},
		"port": {args: append(manifests, "--http-address", "127.0.0.1:99999"), want: []string{
			`http-address: invalid port "99999": want 0 to 65535`,
		}},
		"host": {
			args: append(manifests, "--http-address", "a b:80"), want: []string{`invalid host "a b": want an IP`},
		},
		"no address": {
			args: append(manifests, "--http-address", "999.1.1.1:80"),
			want: []string{`http-address: invalid host "999.1.1.1"`},
		},
		"socket": {args: append(manifests, "--socket", file), want: []string{"socket: ", "is not a socket"}},
		"folder of the socket": {
			args: append(manifests, "--socket", filepath.Join(file, "s")),
			want: []string{"socket: ", "not a directory: set another --socket"},
		},
		"node": {
			args: append(manifests, "--node", "a/b"),
			want: []string{`node: "a/b" has other characters than`, ": give the name of this node"},
		},
		"long socket": {args: append(manifests, "--socket", "/"+strings.Repeat("s", 107)), want: []string{
			"socket: longer than 107 bytes: want a shorter path",
		}},
		"etcd": {args: []string{"--etcd", "nowhere:1"}, want: []string{"want http://host:port"}},
		"etcd's prefix": {
			args: []string{"--etcd", "http://127.0.0.1:1", "--etcd-prefix", "x"},
			want: []string{"Prefix: want a slash"},
		},
		"etcd's CA": {
			args: []string{"--etcd", "https://127.0.0.1:1", "--etcd-ca-file", "/does/not/exist"},
			want: []string{"/does/not/exist: no such file or directory: give valid PEM files"},
		},
		"half a certificate": {
			args: []string{"--etcd", "https://127.0.0.1:1", "--etcd-cert-file", file},
			want: []string{"command line: etcd-cert-file: set both etcd-cert-file and etcd-key-file, or neither\n"},
		},
		"half a user": {
			args: []string{"--etcd", "https://127.0.0.1:1", "--etcd-username", "u"},
			want: []string{"command line: etcd-username: set both etcd-username and etcd-password-file, or neither\n"},
		},
		"all at once": {args: []string{
			"--manifests", file, "--node", "a/b", "--table", "a b", "--apply-burst", "0", "--etcd", "nowhere:1",
		}, want: []string{"not a directory", "node: ", "table: ", "apply-burst: ", "want http://host:port"}},
		"a missing folder":  {args: []string{"--manifests", "/does/not/exist"}, ok: true},
		"a folder":          {args: manifests, ok: true},
		"no HTTP at all":    {args: append(manifests, "--http-address", ""), ok: true},
		"any address":       {args: append(manifests, "--http-address", ":http", "--node", "n.example.com"), ok: true},
		"address of family": {args: append(manifests, "--http-address", "[::1%lo]:9919"), ok: true},
	} {
		check := append([]string{"config", "--check"}, row.args...)
		if row.ok {
			code, _, errs := call(t, check...)
			require.Zero(t, code, "%s: %s", name, errs)
			require.Equal(t, name == "a missing folder",
				strings.Contains(errs, "warning: manifests: /does/not/exist does not exist"), errs)
			continue
		}
		code, out, checked := call(t, check...)
		require.NotZero(t, code, name)
		require.Empty(t, out, name)
		var errs bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // if run accepts the settings, it ends at once
		ran := agent(ctx, cli.Console{Out: &errs, Err: &errs}, append([]string{"run"}, row.args...))
		require.Equal(t, code, ran, name)
		for _, text := range row.want {
			require.Contains(t, checked, text, name)
		}
		require.NotContains(t, checked, "both or neither", "the error of the library is not repeated")
		require.Equal(t, strings.ReplaceAll(checked, "agent help config", "agent help run"), errs.String(), name)
	}
}
