// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expected outputs below testdata/golden")

// call runs the command as main does.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// golden compares an output with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// folderOf copies the shop into a temporary folder, with some text replaced.
func folderOf(t *testing.T, replace ...string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob("testdata/shop/*.yaml")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(data)
		for i := 0; i+1 < len(replace); i += 2 {
			found[replace[i]] = found[replace[i]] || strings.Contains(text, replace[i])
			text = strings.ReplaceAll(text, replace[i], replace[i+1])
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(text), 0o600))
	}
	for i := 0; i+1 < len(replace); i += 2 {
		require.True(t, found[replace[i]], "%q is not in the shop", replace[i])
	}
	return dir
}

// fileOf writes a temporary file.
func fileOf(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestHelp(t *testing.T) {
	status, out, errs := call(t)
	require.Zero(t, status)
	require.Empty(t, errs)
	for _, c := range commands() {
		require.Contains(t, out, "  "+c.Name+" ")
		for _, args := range [][]string{{"help", c.Name}, {c.Name, "--help"}, {c.Name, "x", "-h"}} {
			status, help, errs := call(t, args...)
			require.Zero(t, status)
			require.Empty(t, errs)
			require.True(t, strings.HasPrefix(help, "Usage: explain "+c.Name+" [FLAGS] "+c.Args), help)
			require.GreaterOrEqual(t, strings.Count(help, "\n  explain "+c.Name+" "), 1, "no example")
			require.Contains(t, help, "xit status")
			require.Contains(t, help, "--allow-rejected")
		}
	}
}

func TestOutputs(t *testing.T) {
	const guests = "from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: guests}}}]\n    protocols"
	const selectsDB = "podSelector: {matchLabels: {app: db}}\n  policyTypes"
	typo := folderOf(t, selectsDB, strings.Replace(selectsDB, "app: db", "app: dp", 1))
	proposed := folderOf(t, "ports: [{port: postgres}]\n---", "ports: [{port: postgres}, {port: 9187}]\n---",
		guests, "from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]\n    protocols")
	for _, row := range []struct {
		name   string
		status int
		args   string
	}{
		{"why-allowed.txt", 0, "why testdata/shop --from shop/api-0 --to shop/db-0 --port tcp/5432"},
		{
			"why-denied.txt", 1,
			"why testdata/shop --from guests/visitor --to shop/db-0 --port tcp/postgres --source-port 1025",
		},
		{"why-host.txt", 0, "why testdata/shop --from kube-system/node-agent --to shop/web-*9qz7m --port http"},
		{"why-nobody.txt", 3, "why testdata/shop --from kube-system/node-agent --to 203.0.113.1 --port icmp"},
		{"why-service.txt", 0, "why testdata/shop --from 198.51.100.7 --to svc/shop/web --port tcp/http"},
		{"why.json", 1, "why testdata/shop --json --from 198.51.100.7 --to shop/db-0 --port icmp"},
		{
			"matrix.txt", 0,
			"matrix testdata/shop --port http --port icmp --external 198.51.100.7 --external 2001:db8::7",
		},
		{"matrix-all-ports.txt", 0, "matrix testdata/shop --width 40"},
		{"matrix-pods.txt", 0, "matrix testdata/shop --pods shop/* --all --port tcp/grpc"},
		{"matrix.json", 0, "matrix testdata/shop --pods shop/* --port tcp/8080 --external 198.51.100.7 --json"},
		{"selects.txt", 0, "selects testdata/shop"},
		{"selects-nothing.txt", 1, "selects " + typo},
		{"selects.json", 0, "selects testdata/shop --json"},
		{"check.txt", 0, "check testdata/shop --expect testdata/expect.yaml"},
		{"check-failed.txt", 1, "check testdata/shop/00-namespaces.yaml testdata/shop/10-pods.yaml " +
			"testdata/shop/20-policies.yaml --expect testdata/golden/failing.yaml"},
		{"diff.txt", 1, "diff testdata/shop " + proposed},
		{"diff.json", 1, "diff testdata/shop --json --port tcp/9187 " + proposed},
		{"diff-explained.txt", 1, "diff testdata/shop --port http --external 198.51.100.7 --explain " + proposed},
		{"diff-same.txt", 0, "diff testdata/shop testdata/shop"},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, out, errs := call(t, strings.Fields(row.args)...)
			require.Equal(t, row.status, status, errs)
			require.Empty(t, errs)
			golden(t, row.name, out)
			if strings.HasSuffix(row.name, ".json") {
				require.True(t, json.Valid([]byte(out)))
			}
		})
	}
}

func TestWrongCommandLines(t *testing.T) {
	twoFamilies := fileOf(t, "expect: [{from: 198.51.100.7, to: '2001:db8::7', port: tcp/80, allow: true}]")
	for _, row := range []struct{ args, want string }{
		{"frob", `no command "frob"`},
		{"why --from a/b --to c/d --port tcp/1", "want files or folders"},
		{"why testdata/shop --from shop/api-0 --to shop/db-0", "--port are required"},
		{"why testdata/shop --from shop/api-0 --to shop/db-0 --port 80", `"80": want a protocol too`},
		{"why testdata/shop --from shop/api-0 --to shop/db-0 --port tcp/80 --source-port 0", "0 is not a port"},
		{"why testdata/shop --from shop/api-0 --to shop/db-0 --port tcp/80 --frob", "-frob"},
		{"selects", "want files or folders"},
		{"why testdata/none --from shop/api-0 --to shop/db-0 --port tcp/80", "testdata/none"},
		{"why testdata/golden --from shop/api-0 --to shop/db-0 --port tcp/80 --recursive", "neither"},
		{"why testdata/shop --from shop/api --to shop/db-0 --port tcp/80", `"shop/api" is neither`},
		{
			"why testdata/shop --from shop/api-0 --to shop/nobody-* --port tcp/80",
			`no known pod matches "shop/nobody-*"`,
		},
		{"why testdata/shop --from shop/api-0 --to shop/migrate-1 --port tcp/80", "shop/migrate-1 has ended"},
		{"why testdata/shop --from shop/api-0 --to shop/api-0 --port tcp/80", "are the same party"},
		{"why testdata/shop --from shop/api-0 --to shop/db-0 --port http", "no port of this name"},
		{"why testdata/shop --from 198.51.100.7 --to 2001:db8::7 --port tcp/80", "no addresses of one family"},
		{"matrix", "want files or folders"},
		{"matrix testdata/shop --port tcp", `"tcp": want a port too`},
		{"matrix testdata/shop --external outside", `--external: "outside" is not an address`},
		{"matrix testdata/shop --pods kube-system/node-agent", "is not a pod to which policy applies"},
		{"matrix testdata/shop --pods shop/none", "neither"},
		{"matrix testdata/shop --width -1", "--width"},
		{"matrix testdata/shop/20-policies.yaml --port tcp/80", "no pods that policy applies to"},
		{"diff testdata/shop", "want OLD and NEW"},
		{"diff testdata/shop testdata/shop testdata/shop", "want OLD and NEW"},
		{"diff testdata/shop testdata/none", "testdata/none"},
		{"diff testdata/none testdata/shop", "testdata/none"},
		{"diff testdata/shop testdata/shop --port 1", "want a protocol"},
		{"diff testdata/shop testdata/shop --external shop/api-0", "is not an address"},
		{
			"diff testdata/shop testdata/shop --max-flows 99",
			"558 flows to try, and --max-flows is 99 flows: nothing was tried",
		},
		{"check testdata/shop", "--expect is required"},
		{"check --expect testdata/expect.yaml", "want files or folders"},
		{"check testdata/shop --expect testdata/none.yaml", "none.yaml"},
		{"check testdata/shop --expect testdata/shop/00-namespaces.yaml", "want one document"},
		{"check testdata/shop --expect " + twoFamilies, "file.yaml: line 1: 198.51.100.7 has no flow to 2001:db8::7"},
	} {
		status, out, errs := call(t, strings.Fields(row.args)...)
		require.Equal(t, 2, status, row.args)
		require.Empty(t, out, row.args)
		require.Contains(t, errs, row.want, row.args)
	}
}

// The JSON form has the explanation of each failed expectation.
func TestCheckJSON(t *testing.T) {
	status, out, _ := call(t, "check", "testdata/shop", "--expect", "testdata/golden/failing.yaml", "--json")
	require.Equal(t, 1, status)
	var got struct {
		Holds   bool
		Results []struct {
			Name         string
			Line, Flows  int
			Allow, Holds bool
			Failed       []struct {
				From, To, Port, Outcome string
				Flows                   []struct{ Result map[string]string }
			}
		}
		Rejected []string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.False(t, got.Holds)
	require.NotNil(t, got.Rejected)
	require.Len(t, got.Results, 3)
	require.True(t, got.Results[0].Holds)
	require.Empty(t, got.Results[0].Failed)
	require.Equal(t, "guests are kept out of the shop", got.Results[1].Name)
	require.Equal(t, 12, got.Results[2].Line)
	require.Equal(t, 4, got.Results[2].Flows)
	require.Len(t, got.Results[2].Failed, 2)
	require.Equal(t, "Deny", got.Results[2].Failed[1].Outcome)
	require.Equal(t, "Deny", got.Results[2].Failed[1].Flows[1].Result["combined"])
	_, out, _ = call(t, "check", "testdata/shop", "--expect", "testdata/expect.yaml", "--json")
	require.Contains(t, out, `"holds": true`)
}

// Expectations about pods and ports that do not exist are errors. All of them are reported.
func TestCheckRefusesUnknownPodsAndPorts(t *testing.T) {
	file := fileOf(t, `
expect:
- {from: shop/nobody, to: shop/db-0, port: tcp/1, allow: false}
- {from: shop/api-0, to: shop/db-0, port: tcp/postgres, allow: true}
- {from: shop/web-*, to: shop/db-0, port: tcp/http, allow: false}
- {from: shop/web-*, to: shop/x*, port: tcp/1, allow: false}
`)
	status, out, errs := call(t, "check", "testdata/shop", "--expect", file)
	require.Equal(t, 2, status)
	require.Empty(t, out)
	for _, want := range []string{
		`line 3: "shop/nobody"`, "line 5: shop/web-5f7c9d-4k2xw has no flow to shop/db-0 on tcp/http",
		`line 6: no known pod matches "shop/x*"`,
	} {
		require.Contains(t, errs, want)
	}
}

// A flow to which no policy applies is neither allowed nor denied.
func TestCheckWithoutPolicy(t *testing.T) {
	for _, allow := range []string{"true", "false"} {
		file := fileOf(t, "expect: [{from: kube-system/node-agent, to: 203.0.113.1, port: tcp/1, allow: "+allow+"}]")
		status, out, errs := call(t, "check", "testdata/shop", "--expect", file)
		require.Equal(t, 1, status, errs)
		require.Contains(t, out, "FAIL line 1")
		require.Contains(t, out, "tcp/1: NotApplicable")
		require.Contains(t, out, "kube-system/node-agent uses the network of its node")
	}
}

// If an object is rejected, the result is printed without the object, and the exit status is 2.
func TestRejected(t *testing.T) {
	bad := folderOf(t, "ports: [{port: http}]", "ports: [{port: http}, {port: 70000}]")
	for _, row := range []struct {
		args            string
		status, allowed int
		out             string
	}{
		{"why " + bad + " --from shop/api-0 --to shop/db-0 --port tcp/5432", 2, 0, "Allow"},
		{"why " + bad + " --from 198.51.100.7 --to shop/web-* --port http", 2, 1, "Deny"},
		{"matrix " + bad + " --port tcp/1", 2, 0, "1 guests/visitor"},
		{"diff " + bad + " " + bad, 2, 0, "no verdict changes"},
		{"diff testdata/shop " + bad, 2, 1, "Deny, was Allow"},
		{"check " + bad + " --expect testdata/expect.yaml", 2, 1, "6 expectations, 1 failed"},
	} {
		status, out, errs := call(t, strings.Fields(row.args)...)
		require.Equal(t, row.status, status, row.args)
		require.Contains(t, out, row.out, row.args)
		require.Contains(t, errs, "rejected: "+filepath.Join(bad, "20-policies.yaml"), row.args)
		require.Contains(t, errs, "NetworkPolicy shop/web: spec.ingress[0].ports[1].port", row.args)
		require.Contains(t, errs, "(--allow-rejected accepts it)", row.args)

		status, out, errs = call(t, append(strings.Fields(row.args), "--allow-rejected")...)
		require.Equal(t, row.allowed, status, row.args)
		require.Contains(t, out, row.out, row.args)
		require.Contains(t, errs, "rejected: ", row.args)
	}
	_, out, _ := call(t, "why", bad, "--from", "198.51.100.7", "--to", "shop/web-*", "--port", "http")
	require.Contains(t, out, "Allow in doubt (spec.ingress[0].ports[1].port: ",
		"S167: the explanation names the rule and its doubt")
	_, out, _ = call(t, "check", bad, "--expect", "testdata/expect.yaml", "--json")
	require.Contains(t, out, `"holds": false`)
	require.Contains(t, out, "spec.ingress[0].ports[1].port")
	_, out, _ = call(t, "diff", bad, bad, "--json")
	require.Contains(t, out, "spec.ingress[0].ports[1].port")
	_, out, _ = call(t, "matrix", bad, "--json")
	require.Contains(t, out, "spec.ingress[0].ports[1].port")
}

// diff lists the pods that are in one folder only, or whose addresses changed.
func TestDiffOfPods(t *testing.T) {
	changed := folderOf(t, "name: visitor", "name: traveller", "10.65.0.30", "10.65.0.33", "10.65.0.40", "10.65.0.44",
		"fd00:65::40", "fd00:65::44")
	status, out, errs := call(t, "diff", "testdata/shop", changed)
	require.Equal(t, 1, status, errs)
	require.Contains(t, out, "in OLD only, not compared: guests/visitor\n")
	require.Contains(t, out, "in NEW only, not compared: guests/traveller\n")
	require.Contains(t, out,
		"with other addresses, compared only by the addresses in both: kube-system/dns-0 shop/db-0\n")
	require.Contains(t, out, "no verdict changes\n")
	status, out, _ = call(t, "diff", "testdata/shop", changed, "--json")
	require.Equal(t, 1, status)
	require.Contains(t, out, `"onlyOld":["guests/visitor"],"onlyNew":["guests/traveller"],`+
		`"otherAddresses":["kube-system/dns-0","shop/db-0"]`)
}

// Only one source port of a rule is tried, and that is reported.
func TestDiffOfSourcePorts(t *testing.T) {
	rule := fileOf(t, `apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: p}
spec: {ingress: [{action: Allow, protocol: TCP, source: {ports: [1024]}}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: a, name: b}
spec: {nodeName: n}
status: {podIPs: [{ip: 10.0.0.1}]}
`)
	status, out, errs := call(t, "diff", rule, rule)
	require.Zero(t, status, errs)
	require.Contains(t, out, "some rules match source ports: only 40000 was tried\n")
}

// A diff without flags finds every removed policy.
func TestDiffFindsEveryPolicy(t *testing.T) {
	for _, name := range []string{"dns", "web", "api", "db"} {
		without := folderOf(t, "metadata: {namespace: shop, name: "+name+"}", "metadata: {namespace: elsewhere, name: "+
			name+"}")
		status, out, errs := call(t, "diff", "testdata/shop", without)
		require.Equal(t, 1, status, errs)
		require.Contains(t, out, "Deny, was Allow", name)
		status, out, _ = call(t, "diff", without, "testdata/shop")
		require.Equal(t, 1, status)
		require.Contains(t, out, "Allow, was Deny", name)
	}
}

// Manifests without a cluster are checked with --assume.
func TestBareManifests(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web, labels: {app: web}}, spec: {containers: []}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db, labels: {app: db}}, spec: {containers: []}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec: {podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: 5432}]}]}
`), 0o600))
	for port, want := range map[string]int{"tcp/5432": 0, "tcp/80": isDenied} {
		args := []string{"why", file, "--from", "shop/web", "--to", "shop/db", "--port", port}
		status, _, errs := call(t, args...)
		require.Equal(t, failed, status)
		require.Contains(t, errs, "is on no node")
		status, _, errs = call(t, append(args, "--assume")...)
		require.Equal(t, want, status, errs)
		require.Contains(t, errs, "note: shop/db is assumed to have node assumed, 198.1")
	}
}
