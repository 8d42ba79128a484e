// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// runIn runs a program in a namespace, and returns its exit code and output.
func runIn(t *testing.T, ns *netns.NS, env []string, name string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin"), env...)
	if path, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	var data []byte
	_ = ns.Do(func() (err error) { // the exit code has the result
		data, err = cmd.CombinedOutput()
		return err
	})
	require.NotNil(t, cmd.ProcessState, "%s: %v", name, cmd.Err)
	return cmd.ProcessState.ExitCode(), string(data)
}

// kernelState returns the objects in the kernel of an agent with route protocol 77.
func kernelState(t *testing.T, ns *netns.NS) string {
	t.Helper()
	_, out := runIn(t, ns, nil, "nft", "list", "tables")
	for _, family := range []string{"-4", "-6"} {
		_, rules := runIn(t, ns, nil, "ip", family, "rule", "show")
		for line := range strings.Lines(rules) {
			if strings.Contains(line, "proto 77") {
				out += line
			}
		}
	}
	for _, command := range []string{
		"ip -4 route show table all proto 77", "ip -6 route show table all proto 77",
		"ip -4 neigh show proto 77", "ip -6 neigh show proto 77",
		"ip -4 neigh show proxy", "ip -6 neigh show proxy", "ip -br link show type vxlan",
	} {
		words := strings.Fields(command)
		code, lines := runIn(t, ns, nil, words[0], words[1:]...)
		require.Zero(t, code, lines)
		out += lines
	}
	if strings.Contains(out, "vxlan.way") {
		_, lines := runIn(t, ns, nil, "bridge", "fdb", "show", "dev", "vxlan.way")
		out += lines
	}
	return out
}

// sysctlsOf returns the sysctls of a node's interfaces, and of all forwarding.
func sysctlsOf(t *testing.T, ns *netns.NS) map[string]string {
	t.Helper()
	values := map[string]string{}
	require.NoError(t, ns.Do(func() error {
		for _, dir := range []string{"net/ipv4/conf", "net/ipv6/conf", "net/ipv4/neigh", "net/ipv6/neigh"} {
			err := filepath.WalkDir("/proc/sys/"+dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				if data, err := os.ReadFile(path); err == nil { // some can only be written
					values[strings.TrimPrefix(path, "/proc/sys/")] = strings.TrimSpace(string(data))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return values
}

// teardownResources returns the resources of a node with a workload of both families and a tunnel
// to another node.
func teardownResources(t *testing.T, iface string) string {
	t.Helper()
	files := map[string]string{}
	node := func(name, address, tunnel string) *policy.Node {
		return &policy.Node{
			Name: name, Addresses: []netip.Prefix{netip.MustParsePrefix(address)},
			IPv4VXLANTunnelAddr: netip.MustParseAddr(tunnel),
		}
	}
	for i, r := range []policy.Resource{
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "web", Node: "n1", Interface: iface, MAC: "02:00:00:00:00:07",
			Addresses: []netip.Addr{netip.MustParseAddr("10.65.1.7"), netip.MustParseAddr("2001:db8::7")},
		},
		&policy.IPPool{Name: "p", CIDR: netip.MustParsePrefix("10.65.0.0/16"), VXLANMode: policy.EncapAlways},
		&policy.Block{CIDR: netip.MustParsePrefix("10.65.1.0/26"), Node: "n1"},
		&policy.Block{CIDR: netip.MustParsePrefix("10.65.2.0/26"), Node: "n2"},
		node("n1", "192.0.2.1/24", "10.65.1.0"), node("n2", "192.0.3.2/24", "10.65.2.0"),
	} {
		data, err := policy.Encode(r)
		require.NoError(t, err)
		files[strconv.Itoa(i)+".json"] = string(data)
	}
	return folderOf(t, files)
}

// addMore makes objects that the agent never makes. Another program of the library could make them,
// with the same protocol number.
func addMore(t *testing.T, node *netns.NS, iface string) {
	t.Helper()
	for _, command := range []string{
		"ip rule add from 10.65.1.7 lookup 100 protocol 77", "ip -6 rule add from 2001:db8::7 lookup 100 protocol 77",
		"ip neigh add proxy 169.254.1.1 dev " + iface + " protocol 77",
		"ip -6 neigh add proxy fe80::1 dev " + iface + " protocol 77",
	} {
		words := strings.Fields(command)
		code, out := runIn(t, node, nil, words[0], words[1:]...)
		require.Zero(t, code, "%s: %s", command, out)
	}
}

// requireNamed requires that the kernel had an object of each kind, and that the output of teardown
// names it.
func requireNamed(t *testing.T, had, out string) {
	t.Helper()
	for kind, row := range map[string]struct{ had, named string }{
		"table":              {"table inet mine\n", "nft delete table inet mine\n"},
		"IPv4 route":         {"10.65.1.7 dev way0 scope link", "ip route del 10.65.1.7/32 dev way0"},
		"IPv6 route":         {"2001:db8::7 dev way0 metric", "ip -6 route del 2001:db8::7/128 dev way0"},
		"route of a block":   {"blackhole 10.65.1.0/26", "ip route del blackhole 10.65.1.0/26"},
		"route to a node":    {"10.65.2.0/26 via", "ip route del 10.65.2.0/26 via 10.65.2.0 dev vxlan.way"},
		"IPv4 rule":          {"from 10.65.1.7 lookup 100", "ip rule del from 10.65.1.7/32 lookup 100"},
		"IPv6 rule":          {"from 2001:db8::7 lookup 100", "ip -6 rule del from 2001:db8::7/128 lookup 100"},
		"IPv4 neighbour":     {"10.65.1.7 dev way0 lladdr", "ip neigh del 10.65.1.7 dev way0"},
		"IPv6 neighbour":     {"2001:db8::7 dev way0 lladdr", "ip -6 neigh del 2001:db8::7 dev way0"},
		"tunnel's neighbour": {"10.65.2.0 dev vxlan.way lladdr", "ip neigh del 10.65.2.0 dev vxlan.way"},
		"IPv4 proxy entry":   {"169.254.1.1 dev way0 proxy", "ip neigh del proxy 169.254.1.1 dev way0"},
		"IPv6 proxy entry":   {"fe80::1 dev way0 proxy", "ip -6 neigh del proxy fe80::1 dev way0"},
		"FDB entry":          {"dst 192.0.3.2 self permanent", "dev vxlan.way dst 192.0.3.2 self permanent"},
		"VXLAN device":       {"vxlan.way  ", "ip link del dev vxlan.way\n"},
		"sysctl of all":      {"", "sysctl -w net/ipv6/conf/all/forwarding=0\n"},
		"IPv4 sysctl":        {"", "sysctl -w net/ipv4/conf/way0/forwarding=0\n"},
		"IPv6 sysctl":        {"", "sysctl -w net/ipv6/conf/way0/forwarding=0\n"},
	} {
		require.Contains(t, had, row.had, kind)
		require.Contains(t, out, row.named, kind)
	}
	require.Contains(t, out, "bridge fdb del ")
	require.NotContains(t, out, "sysctl -w net/ipv4/conf/vxlan.way", "the device is gone")
}

// After teardown, no object of the agent is in the kernel, also with other settings. The output
// names each kind of object.
func TestTeardownRemovesAndNamesEveryObject(t *testing.T) {
	const iface, forwarding6 = "way0", "net/ipv6/conf/all/forwarding"
	node := nstest.New(t)
	nstest.NewWorkload(t, node, iface, "10.65.1.7", "2001:db8::7")
	_, _, err := netns.Veth(netns.End{NS: node, Name: "eth0"}, netns.End{NS: nstest.New(t), Name: "peer"})
	require.NoError(t, err)
	require.NoError(t, node.AddAddr("eth0", netip.MustParsePrefix("192.0.2.1/24")))
	require.NoError(t, node.SetSysctl(forwarding6, "0"))
	sysctls := sysctlsOf(t, node)
	a := startAgentProcess(t, node, "--resources", teardownResources(t, iface), "--forward-ipv6", "--table", "mine",
		"--route-protocol", "77")
	a.status("the workload is up", func(s api.Status) bool { return s.Ready && s.Endpoints["up"] == 1 })

	config := folderOf(t, map[string]string{
		"agent.yaml": "table: mine\nroute-protocol: 77\nmanifests: /does/not/exist\nhttp-address: nonsense\nfrob: 7\n",
	})
	env := []string{agentMode + "=1", "WAYLEAVE_CONFIG=" + config + "/agent.yaml"}
	teardown := func(args ...string) (int, string) {
		return runIn(t, node, env, "/proc/self/exe", append([]string{"teardown", "--socket", a.socket}, args...)...)
	}
	code, out := teardown()
	require.Equal(t, 1, code)
	require.Contains(t, out, a.socket+": an agent is running there already: stop it first")

	t.Run("the table has an owner", func(t *testing.T) {
		_, table := runIn(t, node, nil, "nft", "list", "table", "inet", "mine")
		nstest.SkipUnlessOwned(t, strings.Contains(table, "flags owner"))
		before := kernelState(t, node)
		code, out := runIn(t, node, env, "/proc/self/exe", "teardown", "--socket", a.socket+".other")
		require.Equal(t, 1, code)
		require.Regexp(t, fmt.Sprintf(`^agent: table inet mine belongs to \S+: stop the agent \(process %d\) first\n$`,
			a.cmd.Process.Pid), out)
		require.Equal(t, before, kernelState(t, node))
	})

	require.NoError(t, a.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, a.cmd.Wait())
	addMore(t, node, iface)
	left := kernelState(t, node)
	code, planned := teardown("--dry-run")
	require.Zero(t, code, planned)
	require.Equal(t, left, kernelState(t, node))
	changed := sysctlsOf(t, node)
	code, out = teardown()
	require.Zero(t, code, out)
	require.Equal(t, planned, out)
	requireNamed(t, left, out)
	require.Empty(t, kernelState(t, node))
	require.Equal(t, "1", changed[forwarding6])
	now := sysctlsOf(t, node)
	for path, before := range sysctls {
		require.Equal(t, before, now[path], path)
	}
	require.NoFileExists(t, a.socket+".sysctls")
	code, out = teardown()
	require.Zero(t, code)
	require.Contains(t, out, "nothing of the agent is in the kernel: neither table inet ")
}

// If the settings file may set other names, teardown does not use the default names.
func TestTeardownWithBrokenFile(t *testing.T) {
	const mine, other = "table inet mine\n", "table inet wayleave\n"
	node, dir := nstest.New(t), t.TempDir()
	for _, table := range []string{"mine", "wayleave"} {
		code, out := runIn(t, node, nil, "nft", "add", "table", "inet", table)
		require.Zero(t, code, out)
	}
	file := filepath.Join(dir, "agent.yaml")
	teardown := func(config string, args ...string) (int, string) {
		require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		args = append([]string{"teardown", "--config", file, "--socket", dir + "/socket"}, args...)
		return runIn(t, node, []string{agentMode + "=1"}, "/proc/self/exe", args...)
	}
	tables := func() string {
		_, out := runIn(t, node, nil, "nft", "list", "tables")
		return out
	}
	code, out := teardown("table: mine\napply-burst: a: b\n")
	require.Equal(t, 1, code)
	require.Equal(t, "agent: file "+file+": yaml: line 2: mapping values are not allowed in this context: "+
		"want lines with KEY: VALUE\n"+
		"set these flags to the values of the running agent: --route-protocol, --table\n", out)
	require.Equal(t, mine+other, tables())
	code, out = teardown("table: [mine]\n")
	require.Equal(t, 1, code)
	require.Contains(t, out, "\nset these flags to the values of the running agent: --table\n")
	require.Equal(t, mine+other, tables())
	code, out = teardown("table: mine\nnode: [n1]\n")
	require.Zero(t, code, out)
	require.Equal(t, other, tables())
	code, out = teardown("a: b: c", "--table", "wayleave", "--route-protocol", "77")
	require.Zero(t, code, out)
	require.Empty(t, tables())
}

// Teardown needs no node name: it works on a host whose name is not a valid one.
func TestTeardownOnHostWithInvalidName(t *testing.T) {
	node, socket := nstest.New(t), filepath.Join(t.TempDir(), "agent.sock")
	var out []byte
	require.NoError(t, node.Do(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil { // the thread ends with the function
			return err
		}
		if err := unix.Sethostname([]byte("a/b")); err != nil {
			return err
		}
		cmd := exec.Command("/proc/self/exe", "teardown", "--socket", socket)
		cmd.Env = append(os.Environ(), agentMode+"=1")
		out, err = cmd.CombinedOutput()
		return err
	}), "%s", out)
	require.Equal(t,
		"nothing of the agent is in the kernel: neither table inet wayleave nor a route of protocol 219\n", string(out))
}
