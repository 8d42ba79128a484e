// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"errors"
	"flag"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/policy"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const stored = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: wayleave.dev/v1
kind: AgentConfig
metadata: {name: default}
spec:
  log-level: DEBUG
  apply-burst: 3
  resync-interval: 1h
---
apiVersion: wayleave.dev/v1
kind: AgentConfig
metadata: {name: node.n1}
spec: {apply-burst: 4}
--- # the last
kind: Pod
`

// ResolveKeys neither uses nor checks other settings.
func TestResolveKeys(t *testing.T) {
	layers := []settings.Layer{
		{Source: "one", Values: map[string]string{"node": "a/b", "table": "mine", "frob": "7"}},
		{
			Source: "two", Values: map[string]string{"apply-burst": "x"},
			Problems: []*settings.Problem{{Source: "two", Key: "node"}},
		},
	}
	e, err := settings.ResolveKeys(layers, "table", "socket")
	require.NoError(t, err)
	require.Equal(t, "mine", e.Table)
	require.Equal(t, settings.DefaultSocket, e.Socket)
	require.Equal(t, settings.Defaults().Node, e.Node)
	_, err = settings.ResolveKeys(layers[:1], "table", "node")
	require.EqualError(t, err, `one: node: "a/b" has other characters than letters, digits and -_.:@+~: `+
		"give the name of this node\nset these flags to the values of the running agent: --node")
}

// ResolveKeys uses neither a default nor an earlier value of a key that a broken source may set.
func TestResolveKeysOfBrokenFile(t *testing.T) {
	const both = "--socket, --table"
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for name, row := range map[string]struct {
		path, command string
		want          string // the table, or a part of the error
		flags         string // in the error
	}{
		"unreadable":                  {missing, "", "no such file", both},
		"directory":                   {t.TempDir(), "", "is a directory", both},
		"no YAML":                     {file(t, "table: mine\n a: b: c\n"), "", "mapping values", both},
		"no mapping":                  {file(t, "- table: mine\n"), "", "want lines with KEY: VALUE", both},
		"key that is not a word":      {file(t, "{table}: mine\n"), "", "want a word as the key", both},
		"list":                        {file(t, "table: [mine]\n"), "", "want a single value", "--table"},
		"set twice":                   {file(t, "table: a\ntable: b\n"), "", "table: line 2: is set twice", "--table"},
		"invalid":                     {file(t, "table: a b\n"), "", `table: "a b" is not`, "--table"},
		"some of it set":              {missing, "table", "no such file", "--socket"},
		"other keys broken":           {file(t, "table: mine\nfrob: 7\nnode: [a]\napply-burst: x\n"), "", "mine", ""},
		"no settings":                 {file(t, ""), "", "env", ""},
		"unreadable, but all is set":  {missing, "table socket", "flag", ""},
		"list, but set":               {file(t, "table: [mine]\n"), "table", "flag", ""},
		"set twice, but set":          {file(t, "table: a\ntable: b\n"), "table", "flag", ""},
		"invalid, but set":            {file(t, "table: a b\n"), "table", "flag", ""},
		"no YAML, but all is set":     {file(t, "a: b: c\n"), "table socket", "flag", ""},
		"one of them broken, one set": {file(t, "table: [mine]\n"), "socket", "want a single value", "--table"},
	} {
		command := settings.Layer{Source: "command line", Values: map[string]string{}}
		for _, key := range strings.Fields(row.command) {
			command.Values[key] = "flag"
		}
		environment := settings.Environment([]string{"WAYLEAVE_TABLE=env", "WAYLEAVE_SOCKET=env"})
		layers := []settings.Layer{environment, settings.File(row.path), command}
		e, err := settings.ResolveKeys(layers, "table", "socket")
		if row.flags == "" {
			require.NoError(t, err, name)
			require.Equal(t, row.want, e.Table, name)
			continue
		}
		require.Nil(t, e, name)
		require.ErrorContains(t, err, row.want, name)
		require.Regexp(t, "\nset these flags to the values of the running agent: "+row.flags+"$", err.Error(), name)
		require.Equal(t, 1, strings.Count(err.Error(), row.want), name)
	}
}

// ResolveKeys returns an error for a value of the wrong type unless a later layer sets the key.
func TestResolveKeysOfWrongType(t *testing.T) {
	layers := []settings.Layer{
		settings.Environment([]string{"WAYLEAVE_ROUTE_PROTOCOL=x"}), settings.File(file(t, "route-protocol: y\n")),
		{Source: "command line", Values: map[string]string{"route-protocol": "77"}},
	}
	_, err := settings.ResolveKeys(layers[:2], "route-protocol")
	require.ErrorContains(t, err, `route-protocol: invalid value "y": want a whole number`)
	require.ErrorContains(t, err, "\nset these flags to the values of the running agent: --route-protocol")
	require.NotContains(t, err.Error(), "environment")
	e, err := settings.ResolveKeys(layers, "route-protocol")
	require.NoError(t, err)
	require.Equal(t, 77, e.RouteProtocol)
}

func TestPrecedenceOfSources(t *testing.T) {
	found, rest := settings.Extract("a.yaml", []byte(stored))
	require.Equal(t, strings.Count(stored, "\n"), strings.Count(string(rest), "\n"), "lines keep their numbers")
	require.NotContains(t, string(rest), "AgentConfig")
	require.Contains(t, string(rest), "kind: Namespace\nmetadata: {name: shop}\n---\n\n")
	require.Contains(t, string(rest), "--- # the last\nkind: Pod\n")

	flags := flag.NewFlagSet("", flag.ContinueOnError)
	var s settings.Settings
	settings.Declare(flags, &s)
	config := flags.String("config", "", "none of the settings")
	require.NoError(t, flags.Parse([]string{"--config", "x", "--table", "mine"}))
	require.Equal(t, "x", *config)
	path := file(t, "node: n1 # a comment\napply-burst: 2\nresync-interval: 5m\nforward-ipv6: true\n")
	e, err := settings.Resolve(
		settings.Environment([]string{
			"PATH=/bin", "WAYLEAVE_NODE=env", "WAYLEAVE_APPLY_INTERVAL=20ms", "WAYLEAVE_CONFIG=y",
			"WAYLEAVE_IN_USER_NAMESPACE=1",
		}),
		settings.File(path), found[settings.Global], found[settings.OfNode("n1")], settings.CommandLine(flags),
	)
	require.NoError(t, err)
	require.Equal(t, "n1", e.Node)
	require.Equal(t, "mine", e.Table)
	require.Equal(t, 4, e.ApplyBurst)
	require.Equal(t, 20*time.Millisecond, e.ApplyInterval)
	require.Equal(t, time.Hour, e.ResyncInterval)
	require.Equal(t, slog.LevelDebug, e.LogLevel)
	require.True(t, e.ForwardIPv6)
	origins := map[string]string{}
	for _, v := range e.Values {
		origins[v.Key] = v.Origin
	}
	require.Equal(t, "environment", origins["apply-interval"])
	require.Equal(t, "file "+path, origins["node"])
	require.Equal(t, "datastore AgentConfig default (a.yaml)", origins["log-level"])
	require.Equal(t, "datastore AgentConfig node.n1 (a.yaml)", origins["apply-burst"])
	require.Equal(t, "command line", origins["table"])
	require.Equal(t, "default", origins["socket"])
	require.Len(t, e.Values, 55)
}

// conntrack-policy and tcp-from-syn can be set in every source, the datastore included. By default
// denied connections end, and cannot continue.
func TestConntrackSettingsInEverySource(t *testing.T) {
	e, err := settings.Resolve()
	require.NoError(t, err)
	require.Equal(t, conntrack.End, e.ConntrackPolicy)
	require.True(t, e.TCPFromSYN)

	found, _ := settings.Extract("a.yaml", []byte(
		"apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: default}\n"+
			"spec: {conntrack-policy: keep, tcp-from-syn: false}\n"))
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	settings.Declare(flags, &settings.Settings{})
	require.NoError(t, flags.Parse([]string{"--conntrack-policy", "keep", "--tcp-from-syn=false"}))
	for _, layer := range []settings.Layer{
		settings.Environment([]string{"WAYLEAVE_CONNTRACK_POLICY=keep", "WAYLEAVE_TCP_FROM_SYN=false"}),
		settings.File(file(t, "conntrack-policy: keep\ntcp-from-syn: false\n")),
		found[settings.Global],
		settings.CommandLine(flags),
	} {
		e, err := settings.Resolve(layer)
		require.NoError(t, err, layer.Source)
		require.Equal(t, conntrack.Keep, e.ConntrackPolicy, layer.Source)
		require.False(t, e.TCPFromSYN, layer.Source)
		require.Contains(t, e.Values, settings.Value{Key: "conntrack-policy", Value: "keep", Origin: layer.Source})
	}
}

// bridges can be set in every source but the datastore. By default there is none.
func TestBridges(t *testing.T) {
	e, err := settings.Resolve()
	require.NoError(t, err)
	require.Empty(t, e.BridgeNames())

	flags := flag.NewFlagSet("", flag.ContinueOnError)
	settings.Declare(flags, &settings.Settings{})
	require.NoError(t, flags.Parse([]string{"--bridges", "br0,br1"}))
	for _, layer := range []settings.Layer{
		settings.Environment([]string{"WAYLEAVE_BRIDGES=br0,br1"}),
		settings.File(file(t, "bridges: br0,br1\n")),
		settings.CommandLine(flags),
	} {
		e, err := settings.Resolve(layer)
		require.NoError(t, err, layer.Source)
		require.Equal(t, []string{"br0", "br1"}, e.BridgeNames(), layer.Source)
	}
	const names = "want names of interfaces, separated by commas"
	for value, want := range map[string]string{
		"br0,":      `bridges: "" cannot be the name of a bridge: ` + names,
		"br/0":      `bridges: "br/0" cannot be the name of a bridge: ` + names,
		"vxlan.way": `bridges: "vxlan.way" cannot be the name of a bridge: ` + names,
		"ipip.way":  `bridges: "ipip.way" cannot be the name of a bridge: ` + names,
		"lo":        `bridges: "lo" cannot be the name of a bridge: ` + names,
		"br0,br0":   `bridges: "br0" is duplicated: give each bridge once`,
		"br0,way1":  `bridges: "way1" begins with interface-prefix "way": give one of them another name`,
	} {
		_, err := settings.Resolve(settings.Layer{Source: "test", Values: map[string]string{"bridges": value}})
		require.EqualError(t, err, "test: "+want)
	}
}

// endpoint-to-host can be set in every source but the datastore. By default it is drop.
func TestEndpointToHost(t *testing.T) {
	e, err := settings.Resolve()
	require.NoError(t, err)
	require.Equal(t, policy.HostDrop, e.EndpointToHostAction())
	for value, want := range map[string]policy.HostAction{
		"drop": policy.HostDrop, "accept": policy.HostAccept, "return": policy.HostReturn,
	} {
		e, err := settings.Resolve(settings.File(file(t, "endpoint-to-host: "+value+"\n")))
		require.NoError(t, err)
		require.Equal(t, want, e.EndpointToHostAction())
	}
	set := settings.Layer{Source: "test", Values: map[string]string{"endpoint-to-host": "Accept"}}
	_, err = settings.Resolve(set)
	require.EqualError(t, err, `test: endpoint-to-host: want drop, accept or return, not "Accept"`)
	set.Datastore = true
	_, err = settings.Resolve(set)
	require.EqualError(t, err, "test: endpoint-to-host: cannot be set in the datastore: set it on the node itself")
}

// Pods of a Kubernetes cluster reach their own node, unless endpoint-to-host is set.
func TestEndpointToHostOfKubernetes(t *testing.T) {
	for _, row := range []struct {
		values map[string]string
		want   policy.HostAction
	}{
		{map[string]string{"in-cluster": "true"}, policy.HostAccept},
		{map[string]string{"kubeconfig": "/file"}, policy.HostAccept},
		{map[string]string{"kubeconfig": "/file", "endpoint-to-host": "drop"}, policy.HostDrop},
	} {
		e, err := settings.Resolve(settings.Layer{Source: "test", Values: row.values})
		require.NoError(t, err)
		require.Equal(t, row.want, e.EndpointToHostAction(), row.values)
	}
}

func TestTunnelsFromNodes(t *testing.T) {
	for _, row := range []struct {
		values      map[string]string
		vxlan, ipip bool
	}{
		{map[string]string{}, false, false},
		{map[string]string{"tunnels-from-nodes": "true"}, true, true},
		{map[string]string{"in-cluster": "true"}, false, false},
		{map[string]string{"in-cluster": "true", "kubernetes-vxlan": "true"}, true, false},
		{map[string]string{"in-cluster": "true", "kubernetes-ipip": "true"}, false, true},
		{
			map[string]string{"in-cluster": "true", "kubernetes-vxlan": "true", "tunnels-from-nodes": "false"},
			false, false,
		},
		{map[string]string{"in-cluster": "true", "kubernetes-vxlan": "true", "kubernetes-omit": "nodes"}, false, false},
		{map[string]string{"kubernetes-vxlan": "true"}, false, false},
	} {
		e, err := settings.Resolve(settings.Layer{Source: "test", Values: row.values})
		require.NoError(t, err)
		require.Equal(t, row.vxlan, e.VXLANFromNodes(), row.values)
		require.Equal(t, row.ipip, e.IPIPFromNodes(), row.values)
	}
}

func TestKubernetesProblems(t *testing.T) {
	for want, values := range map[string]map[string]string{
		"in-cluster: cannot be combined with kubeconfig":           {"in-cluster": "true", "kubeconfig": "/file"},
		"etcd: choose etcd or the Kubernetes API as the source":    {"in-cluster": "true", "etcd": "http://a:1"},
		"kubernetes-context: is a context of the file kubeconfig":  {"kubernetes-context": "one"},
		`kubernetes-omit: no kind "tiers": want some of namespace`: {"kubernetes-omit": "nodes, tiers"},
		"kubernetes-omit: pods cannot be omitted, because":         {"kubernetes-omit": "pods"},
		`tunnels-from-nodes: want auto, true or false, not "y"`:    {"tunnels-from-nodes": "y"},
		"tunnels-from-nodes: needs the addresses of nodes": {
			"kubernetes-omit": "nodes", "tunnels-from-nodes": "true",
		},
		"nat-exclude-nodes: needs the addresses of nodes": {
			"kubernetes-omit": "nodes", "nat-exclude-nodes": "true",
		},
		`kubernetes-config: want NAMESPACE/NAME of a ConfigMap, n`: {"kubernetes-config": "wayleave"},
	} {
		_, err := settings.Resolve(settings.Layer{Source: "test", Values: values})
		require.ErrorContains(t, err, "test: "+want)
	}
	e, err := settings.Resolve(settings.Layer{Source: "test", Values: map[string]string{
		"in-cluster": "true", "manifests": "/m", "kubernetes-omit": "nodes, tiers.projectcalico.org",
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"nodes", "tiers.projectcalico.org"}, e.OmittedKinds())
}

// A value of the wrong type does not change the value of an earlier layer. It is the only problem
// of its key.
func TestValueOfWrongTypeIsLeftOut(t *testing.T) {
	e, err := settings.ResolvePartial(
		settings.Environment([]string{"WAYLEAVE_ROUTE_PROTOCOL=77"}),
		settings.Layer{Source: "file", Values: map[string]string{
			"route-protocol": "x", "apply-burst": "x", "health-timeout": "x", "forward-ipv6": "x", "log-level": "x",
		}},
	)
	require.Len(t, strings.Split(err.Error(), "\n"), 5)
	require.Equal(t, 77, e.RouteProtocol)
	want := settings.Defaults()
	want.RouteProtocol = 77
	require.Equal(t, want, e.Settings)
}

// Settings in a datastore cannot prevent a node from programming changes. Otherwise new pods would
// get no network, and the node would seem ready.
func TestApplyIntervalHasALimit(t *testing.T) {
	for text, valid := range map[string]bool{"0s": true, "1m": true, "61s": false, "10000h": false} {
		_, err := settings.Resolve(settings.Layer{
			Source: "test", Datastore: true, Values: map[string]string{"apply-interval": text},
		})
		require.Equal(t, valid, err == nil, "%s: %v", text, err)
	}
}

// Every problem of every source is reported, with source and key.
func TestAllProblemsAreReported(t *testing.T) {
	found, _ := settings.Extract("b.yaml", []byte(
		"apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: default}\n"+
			"spec: {trust-annotations: true, log-level: LOUD, conntrack-policy: kill, tcp-from-syn: perhaps}\n"+
			"---\napiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: all}\nspec: [1]\n"))
	path := file(t, "apply-burst: 0\nhealth-timeout: soon\ntabel: x\nnode: [a]\nsocket: a\nsocket: b\n")
	_, err := settings.Resolve(
		settings.Environment([]string{
			"WAYLEAVE_FROB=1", "WAYLEAVE_AGENT_PORT=tcp://10.0.0.1:1", "WAYLEAVE_APPLY_INTERVAL=-1s",
		}),
		settings.File(path), settings.File("/does/not/exist"), found["default"], found["all"],
	)
	for _, want := range []string{
		"environment: WAYLEAVE_FROB: there is no such setting",
		"environment: WAYLEAVE_AGENT_PORT: there is no such setting",
		"environment: apply-interval: want 0s to 1m0s, not -1s",
		"file " + path + ": apply-burst: want 1 or more, not 0",
		"file " + path + `: health-timeout: invalid value "soon": want a time with its unit, as in 20ms, 30s or 1h`,
		"file " + path + ": tabel: there is no such setting",
		"file " + path + ": node: line 4: want a single value",
		"file /does/not/exist: open",
		"datastore AgentConfig default (b.yaml): trust-annotations: cannot be set in the datastore",
		`datastore AgentConfig default (b.yaml): log-level: invalid value "LOUD": want DEBUG, INFO, WARN or ERROR`,
		`datastore AgentConfig default (b.yaml): conntrack-policy: invalid value "kill": want keep or end`,
		`datastore AgentConfig default (b.yaml): tcp-from-syn: invalid value "perhaps": want true or false`,
		`datastore AgentConfig all (b.yaml): want the name "default"`,
		"datastore AgentConfig all (b.yaml): line 5: want lines with KEY: VALUE",
	} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, err, os.ErrNotExist)
	var p *settings.Problem
	require.True(t, errors.As(err, &p))
	_, err = settings.Resolve(settings.File(file(t, "just words\n")), settings.File(file(t, "a: b: c")),
		settings.File(file(t, "")))
	require.ErrorContains(t, err, "want lines with KEY: VALUE")
	require.ErrorContains(t, err, "mapping values are not allowed")
}

// The error of each setting says what to give instead.
func TestProblemsSayWhatToGive(t *testing.T) {
	values := func(pairs ...string) map[string]string {
		m := map[string]string{"node": "n"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	advice := regexp.MustCompile(`: (want|give|set|keep|remove|choose|write) \S`)
	for _, bad := range []map[string]string{
		values("node", ""), values("node", "a/b"), values("table", ""), values("table", "a b"),
		values("interface-prefix", ""), values("interface-prefix", "a b"), values("bridges", "a b"),
		values("bridges", "br0,br0"), values("bridges", "way1"), values("socket", strings.Repeat("s", 108)),
		values("route-protocol", "4"), values("route-protocol", "x"), values("http-address", "nowhere"),
		values("http-address", "127.0.0.1:99999"), values("http-address", "a b:80"), values("health-timeout", "0s"),
		values("apply-interval", "-1s"), values("apply-interval", "soon"), values("apply-burst", "0"),
		values("resync-interval", "-1s"), values("verdict-log-group", "-2"), values("flows", "true"),
		values("flowtable", "true", "bridges", "br0"), values("flowtable", "true", "wireguard", "true"),
		values("flowtable-uplinks", "eth0"), values("flowtable", "true", "flowtable-uplinks", "a/b"),
		values("endpoint-to-host", "x"), values("tunnels-from-nodes", "x"), values("record-limit", "0"),
		values("conntrack-policy", "x"), values("tcp-from-syn", "x"), values("log-level", "x"),
		values("etcd-username", "u"), values("etcd-cert-file", "f"), values("in-cluster", "true", "kubeconfig", "f"),
		values("in-cluster", "true", "etcd", "http://a:1"), values("kubernetes-context", "c"),
		values("kubernetes-config", "c"), values("kubernetes-omit", "x"), values("kubernetes-omit", "pods"),
		values("kubernetes-omit", "nodes", "nat-exclude-nodes", "true"),
		values("kubernetes-omit", "nodes", "wireguard", "true"),
		values("kubernetes-omit", "nodes", "tunnels-from-nodes", "true"), values("wireguard-port", "0"),
		values("wireguard-mtu", "1"), values("wireguard-key-lifetime", "1s"),
		values("wireguard-unencrypted-hosts", "x"), values("wireguard-unencrypted-hosts", "::ffff:192.0.2.1"),
		values("wireguard-unencrypted-hosts", "192.0.2.1/24"), values("wireguard", "true", "wireguard-dir", ""),
		values("wireguard", "true", "wireguard-host-encryption", "true"),
		values("wireguard", "true", "interface-prefix", "wg"), values("frob", "1"),
	} {
		_, err := settings.Resolve(settings.Layer{Source: "test", Values: bad})
		require.Regexp(t, advice, err, "%v", bad)
		require.NotContains(t, err.Error(), "\n", "%v", bad)
	}
	for _, text := range []string{"words", "a: b: c", "[a]: b", "table: [a]", "table: a\ntable: b"} {
		_, err := settings.Resolve(settings.File(file(t, text)))
		require.Regexp(t, advice, err, text)
	}
	_, err := settings.Resolve(settings.File("/does/not/exist"))
	require.Regexp(t, advice, err)
	_, err = settings.Resolve(settings.Layer{Source: "test", Datastore: true, Values: values()})
	require.Regexp(t, advice, err)
}

// The longest path of a socket in the settings is the longest one that the kernel accepts.
func TestLongestSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	for length, valid := range map[int]bool{107: true, 108: false} {
		socket := strings.Repeat("s", length)
		_, err := settings.Resolve(settings.Layer{Values: map[string]string{"node": "n", "socket": socket}})
		require.Equal(t, valid, err == nil, "%d bytes: %v", length, err)
		listener, err := net.Listen("unix", socket)
		require.Equal(t, valid, err == nil, "%d bytes: %v", length, err)
		if valid {
			require.NoError(t, listener.Close())
		}
	}
}

// Route protocols below 5 are refused: the agent would remove routes of the kernel and of
// administrators. A user of etcd needs a password.
func TestBoundsOfSettings(t *testing.T) {
	for _, c := range []struct {
		values  map[string]string
		problem string
	}{
		{map[string]string{"route-protocol": "4"}, "route-protocol: want 5 to 255"},
		{map[string]string{"route-protocol": "5"}, ""},
		{map[string]string{"route-protocol": "255"}, ""},
		{map[string]string{"route-protocol": "256"}, "route-protocol: want 5 to 255"},
		{map[string]string{"etcd-username": "u"}, "etcd-username: set both"},
		{map[string]string{"etcd-password-file": "/f"}, "etcd-username: set both"},
		{map[string]string{"etcd-username": "u", "etcd-password-file": "/f"}, ""},
	} {
		c.values["node"] = "n"
		_, err := settings.Resolve(settings.Layer{Values: c.values})
		if c.problem == "" {
			require.NoError(t, err, "%v", c.values)
		} else {
			require.ErrorContains(t, err, c.problem)
		}
	}
}

// Neither a key nor a file name can start a new line in the log.
func TestProblemIsOneLine(t *testing.T) {
	_, err := settings.Resolve(settings.Layer{Source: "file a\nlevel=INFO", Values: map[string]string{"x\ny": "1"}})
	require.EqualError(t, err, `"file a\nlevel=INFO": "x\ny": there is no such setting: `+
		"give one of 'agent help run'")
}

// Documents that are not settings stay unchanged, byte by byte.
func TestExtractLeavesManifestsAlone(t *testing.T) {
	for _, text := range []string{
		"", "kind: Pod\n---\n", "{\"kind\": \"List\"}", "# AgentConfig\nkind: Pod\n",
		"kind: AgentConfig\napiVersion: other/v1\n", "AgentConfig: [",
	} {
		found, rest := settings.Extract("a", []byte(text))
		require.Empty(t, found)
		require.Equal(t, text, string(rest))
	}
	found, rest := settings.Extract("a.json", []byte(
		`{"apiVersion":"wayleave.dev/v1","kind":"AgentConfig","metadata":{"name":"default"},"spec":{"apply-burst":7}}`,
	))
	require.Equal(t, "7", found["default"].Values["apply-burst"])
	require.Empty(t, rest)
}

// Settings that cannot change while the agent runs keep their values, whichever source changes
// them. All other changes take effect.
func TestPin(t *testing.T) {
	resolve := func(layers ...settings.Layer) *settings.Effective {
		e, err := settings.Resolve(layers...)
		require.NoError(t, err)
		return e
	}
	before := resolve(settings.File(file(t, "table: ours\nhealth-timeout: 1m\napply-burst: 2\n")))
	again := settings.File(file(t, "table: theirs\nsocket: /run/other\nhealth-timeout: 60s\napply-burst: 3\n"))
	kept, err := settings.Pin(before, resolve(again))
	require.ErrorContains(t, err, again.Source+
		`: socket: "/run/other" takes effect at the next start; "/run/wayleave/agent.sock" stays until then`)
	require.ErrorContains(t, err, `table: "theirs" takes effect`)
	require.Len(t, kept, 2)
	e := resolve(append([]settings.Layer{again}, kept...)...)
	require.Equal(t, "ours", e.Table)
	require.Equal(t, settings.DefaultSocket, e.Socket)
	require.Equal(t, 3, e.ApplyBurst)
	kept, err = settings.Pin(before, before)
	require.NoError(t, err)
	require.Empty(t, kept)
}
