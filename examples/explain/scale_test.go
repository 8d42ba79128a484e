// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster writes a folder with 1,000 pods of 100 workloads in 10 namespaces, and 200 policies. In
// each namespace, the pods of a workload may be reached from their own workload and from the next
// one.
func cluster(tb testing.TB) string {
	tb.Helper()
	var pods, policies strings.Builder
	for ns := range 10 {
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns-%d}\n", ns)
		for app := range 10 {
			for replica := range 10 {
				fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\n"+
					"metadata: {namespace: ns-%d, name: app-%d-%d, labels: {app: app-%d}}\n"+
					"spec: {nodeName: n-%d, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}\n"+
					"status: {podIPs: [{ip: 10.%d.%d.%d}, {ip: 'fd00::%d:%d:%d'}]}\n", ns, app, replica, app, replica,
					ns, app, replica, ns, app, replica)
			}
			for i, peer := range []int{app, (app + 1) % 10} {
				fmt.Fprintf(&policies, "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
					"metadata: {namespace: ns-%d, name: p-%d-%d}\n"+
					"spec: {podSelector: {matchLabels: {app: app-%d}}, ingress: [{from: [{podSelector: {matchLabels: "+
					"{app: app-%d}}}], ports: [{port: http}]}]}\n",
					ns, app, i, app, peer)
			}
		}
	}
	dir := tb.TempDir()
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "pods.yaml"), []byte(pods.String()), 0o600))
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(policies.String()), 0o600))
	return dir
}

// The matrix of a large folder is complete: the table has a row for each workload, and the JSON
// form has every pair of pods.
func TestThousandPods(t *testing.T) {
	dir := cluster(t)
	status, out, errs := call(t, "matrix", dir, "--port", "http", "--width", "0")
	require.Zero(t, status, errs)
	require.Contains(t, out, "\n100 ns-9/app-9-0 +9 ")
	require.NotContains(t, out, "\n101 ")
	status, out, errs = call(t, "matrix", dir, "--port", "http", "--json")
	require.Zero(t, status, errs)
	require.Equal(t, 1000*999, strings.Count(out, `"from":`))
	require.Equal(t, 1000*19, strings.Count(out, `"ipv4":"Allow","ipv6":"Allow"`),
		"the 9 other pods of the workload, and the 10 pods of the next one")

	status, out, errs = call(t, "diff", dir, dir)
	require.Zero(t, status, errs)
	require.Contains(t, out, "between 102 parties")
}

func BenchmarkMatrix(b *testing.B) {
	dir := cluster(b)
	for _, all := range []bool{false, true} {
		b.Run(fmt.Sprintf("pods=1k/policies=200/all=%t", all), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.Zero(b, run(b.Context(),
					[]string{"matrix", dir, "--port", "http", fmt.Sprintf("--all=%t", all)}, io.Discard, io.Discard))
			}
		})
	}
}
