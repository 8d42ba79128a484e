// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestMain runs the tests, or runs the agent in a process that a test has started as an agent.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_IS_THE_AGENT") != "" {
		main()
	}
	nstest.Main(m)
}

// call runs the agent as main does.
func call(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = agent(t.Context(), cli.Console{In: strings.NewReader("exit\n"), Out: &stdout, Err: &stderr}, args)
	return code, stdout.String(), stderr.String()
}

// folderOf writes files into a temporary directory.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestHelp(t *testing.T) {
	code, out, errs := call(t)
	require.Zero(t, code)
	require.Empty(t, errs)
	for _, c := range commands() {
		require.Contains(t, out, "  "+c.Name+" ")
		for _, args := range [][]string{{"help", c.Name}, {c.Name, "--help"}, {c.Name, "-h"}} {
			code, help, errs := call(t, args...)
			require.Zero(t, code)
			require.Empty(t, errs)
			require.True(t, strings.HasPrefix(help, "Usage: agent "+c.Name+" "), help)
			require.Contains(t, help, "\nFlags:\n")
			require.Contains(t, help, "\nExamples:\n\n  agent "+c.Name)
		}
	}
}

// The agent accepts the examples of its help.
func TestExamples(t *testing.T) {
	for _, c := range commands() {
		for _, example := range c.Examples {
			requireValid(t, strings.Fields(example))
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	file := filepath.Join(folderOf(t, map[string]string{"a.yaml": ""}), "a.yaml")
	for _, row := range []struct {
		args string
		code int
		want string
	}{
		{"frob", 2, `no command "frob"`},
		{"help frob", 2, `no command "frob"`},
		{"run", 2, "--manifests is required, or --resources, or --etcd for run; the folder may be empty"},
		{"run --frob", 2, "-frob"},
		{"flows --sort size", 2, "want bytes, packets, connections or last"},
		{"flows --watch 10ms", 2, "want 1s or more"},
		{"run --flows --manifests demo", 1, "needs verdict-log-group"},
		{
			"run --log-level LOUD --manifests demo", 2,
			`invalid value "LOUD" for flag -log-level: want DEBUG, INFO, WARN or ERROR`,
		},
		{
			"run --apply-interval soon --manifests demo", 2,
			`invalid value "soon" for flag -apply-interval: want a time with its unit`,
		},
		{"teardown --route-protocol x", 2, "want a whole number"},
		{"run --manifests demo extra", 2, `unexpected argument "extra"`},
		{"ruleset --manifests /does/not/exist", 1, "/does/not/exist: no such file or directory: give a folder of"},
		{"verify --manifests /does/not/exist", 2, "/does/not/exist: no such file or directory: give a folder of"},
		{"demo --manifests /does/not/exist", 1, "/does/not/exist: no such file or directory: give a folder of"},
		{"apply -f /does/not/exist", 1, "apply: -f: stat /does/not/exist: no such file or directory: give a file or"},
		{"apply --etcd http://[::1]:1 -f /does/not/exist", 1, "give a file or a folder"},
		{"install-cni --plugin /x --conflist /does/not/exist", 1, "give the file of the network configuration"},
		{"run --manifets demo", 2, "there is no flag --manifets: --manifests perhaps?\nTry 'agent help run'."},
		{"run --manifests " + file, 1, "not a directory"},
		{"ruleset --socket /does/not/exist", 1, "/does/not/exist: no agent is running there"},
		{"status --socket /does/not/exist", 1, "no agent is running there"},
		{"status -o yaml", 2, "want text or json"},
		{"plan --socket /does/not/exist", 2, "want one FOLDER"},
		{
			"plan --socket /does/not/exist /does/not/exist/either", 1,
			"/does/not/exist/either: no such file or directory: give a folder of manifests",
		},
		{"wait --socket /does/not/exist", 2, "want one ENDPOINT"},
		{"explain --socket /does/not/exist a b tcp/1", 1, "no agent is running there"},
		{"config --check --apply-burst 0", 2, "--manifests is required"},
		{"config --check --apply-burst 0 --manifests demo", 1, "command line: apply-burst: want 1 or more, not 0"},
		{"completion", 2, "want one SHELL"},
		{"completion tcsh", 2, "neither bash"},
		{"run --apply-interval -1s --manifests demo", 1, "apply-interval: want 0s to 1m0s, not -1s"},
		{"ruleset --manifests demo --interface-prefix a-prefix-that-is-too-long", 1, "refix"},
		{"explain --manifests demo shop/web", 2, "want FROM TO"},
		{
			"explain --manifests demo shop/nobody shop/web tcp/80", 1,
			`"shop/nobody" is neither an address nor a known pod (NAMESPACE/NAME): give an address, or a pod of`,
		},
		{"explain --manifests demo shop/web 198.51.100.256 tcp/80", 1, `"198.51.100.256"`},
		{"explain --manifests demo shop/web data/db tcp", 2, "tcp/80"},
		{"explain --manifests demo shop/web data/db tcp/0", 2, `"tcp/0"`},
		{"explain --manifests demo shop/web data/db tcp/65536", 2, `"tcp/65536"`},
		{"explain --manifests demo shop/web data/db icmp/x", 2, `"icmp/x"`},
		{"explain --manifests demo shop/web data/db frob/1", 2, "frob"},
		{"explain --manifests demo 10.0.0.1 2001:db8::1 tcp/1", 1, "give two of one family"},
	} {
		code, out, errs := call(t, strings.Fields(row.args)...)
		require.Equal(t, row.code, code, row.args)
		require.Empty(t, out, row.args)
		require.Contains(t, errs, row.want, row.args)
	}
}

func TestRuleset(t *testing.T) {
	code, out, errs := call(t, "ruleset", "--manifests", "demo", "--node", "demo", "--table", "mine",
		"--trust-annotations")
	require.Zero(t, code, errs)
	require.True(t, strings.HasPrefix(out, "table inet mine {\n"), out)
	require.Contains(t, out, `"way-db"`)
	code, out, _ = call(t, "ruleset", "--manifests", "demo", "--node", "another")
	require.Zero(t, code)
	require.NotContains(t, out, `"way-db"`, "pods of other nodes have no interface on this node")
}

// A Service among the manifests is not an error: its EndpointSlices have all its data.
func TestRulesetBesideAService(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"a.yaml": goodPods, "service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\n" +
			"spec: {clusterIP: None}\n",
	})
	code, _, errs := call(t, "ruleset", "--manifests", dir, "--node", "n")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
}

func TestExplain(t *testing.T) {
	code, out, errs := call(t, "explain", "--manifests", "demo", "shop/cart", "data/db", "tcp/5432")
	require.Zero(t, code, errs)
	require.Contains(t, out, "TCP 10.65.0.11:40000 -> 10.65.0.20:5432: Allow\n")
	require.Contains(t, out, "TCP [2001:db8:65::11]:40000 -> [2001:db8:65::20]:5432: Allow\n")
	code, out, _ = call(t, "explain", "--manifests", "demo", "--json", "198.51.100.10", "data/db", "ICMP")
	require.Zero(t, code)
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.Contains(t, out, `"combined":"Deny"`)
	require.Contains(t, out, "partners reach the web server only")
}

func TestConfigCheck(t *testing.T) {
	t.Setenv("WAYLEAVE_APPLY_BURST", "7")
	dir := folderOf(t, map[string]string{"agent.yaml": "apply-interval: 20ms\n"})
	t.Setenv("WAYLEAVE_CONFIG", filepath.Join(dir, "agent.yaml"))
	code, out, errs := call(t, "config", "--check", "--table", "mine", "--manifests", dir)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^apply-burst +"7" +environment$`, out)
	require.Regexp(t, `(?m)^apply-interval +"20ms" +file .*agent.yaml$`, out)
	require.Regexp(t, `(?m)^table +"mine" +command line$`, out)
	require.Regexp(t, `(?m)^interface-prefix +"way" +default$`, out)
	code, out, _ = call(t, "config", "--check", "-o", "json", "--manifests", dir)
	require.Zero(t, code)
	require.Contains(t, out, `"key": "apply-burst",`)
	t.Setenv("WAYLEAVE_FROB", "7")
	code, _, errs = call(t, "config", "--check", "--config", "/does/not/exist", "--manifests", dir)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "environment: WAYLEAVE_FROB: there is no such setting")
	require.Contains(t, errs, "file /does/not/exist: open")
}

// There is a script for each shell. With its script, bash completes commands and flags.
func TestCompletion(t *testing.T) {
	code, script, errs := call(t, "completion", "bash")
	require.Zero(t, code, errs)
	for _, row := range []struct{ words, want string }{
		{"agent sta", "status"},
		{"agent wait --time", "--timeout"},
		{"agent help pl", "plan"},
		{"agent frob --", ""},
	} {
		words := strings.Fields(row.words)
		cmd := exec.Command("bash", "-c", script+"COMP_WORDS=("+row.words+"); COMP_CWORD="+strconv.Itoa(len(words)-1)+
			"; _agent; echo -n ${COMPREPLY[@]}")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, row.want, string(out), row.words)
	}
	for _, shell := range []string{"zsh", "fish"} {
		code, script, _ = call(t, "completion", shell)
		require.Zero(t, code)
		require.Contains(t, script, "endpoints")
	}
}
