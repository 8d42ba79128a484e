// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/policy"
)

// childKeys is set in a process that keeps the first node of a cluster, to the paths of its key
// files, separated by commas.
const childKeys = "WAYLEAVE_TEST_WIREGUARD"

// child is a process that keeps the first node of a cluster: its namespace is file 3. It reads
// resources from the standard input, one in each line.
type child struct {
	*testing.T
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// childCommand returns the command that runs a test in a process that keeps the node. The caller
// closes its file.
func (n *node) childCommand(test string) *exec.Cmd {
	n.Helper()
	namespace, err := syscall.Dup(n.ns.FD())
	require.NoError(n, err)
	var keys []string
	for _, d := range n.cfg.Devices {
		keys = append(keys, d.KeyFile)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{os.NewFile(uintptr(namespace), "netns")}, os.Stderr
	cmd.Env = append(os.Environ(), childKeys+"="+strings.Join(keys, ","))
	return cmd
}

// startChild starts a process that keeps the node.
func (n *node) startChild(test string) *child {
	n.Helper()
	p := &child{T: n.T, process: n.childCommand(test)}
	defer p.process.ExtraFiles[0].Close()
	var err error
	p.in, err = p.process.StdinPipe()
	require.NoError(n, err)
	out, err := p.process.StdoutPipe()
	require.NoError(n, err)
	p.out = bufio.NewScanner(out)
	require.NoError(n, p.process.Start())
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.resources {
		p.send(r)
	}
	return p
}

// send sends resources to the process, if it still runs.
func (p *child) send(resources ...policy.Resource) {
	p.Helper()
	for _, r := range resources {
		line, err := policy.Encode(r)
		require.NoError(p, err)
		_, _ = p.in.Write(append(line, '\n'))
	}
}

// await waits until the process writes a line.
func (p *child) await(line string) {
	p.Helper()
	for p.out.Text() != line {
		require.True(p, p.out.Scan(), "the process ended: %v", p.out.Err())
	}
}

// kill ends the process with SIGKILL.
func (p *child) kill() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
}

// childConfig returns the configuration of the node that the process keeps.
func childConfig() wireguard.Config {
	cfg := wireguard.Config{Node: "n1", NetNS: 3}
	for _, path := range strings.Split(os.Getenv(childKeys), ",") {
		cfg.Devices = append(cfg.Devices, wireguard.Device{KeyFile: path})
	}
	if len(cfg.Devices) > 1 {
		cfg.KeyLifetime = keyLifetime
	}
	return cfg
}

// When a process is killed and starts again, no packet is lost, and the sessions continue.
func TestProcessKilledUnderTraffic(t *testing.T) {
	if os.Getenv(childKeys) != "" {
		restartUntilKilled(t)
	}
	const kills = 6
	c := newCluster(t, 2, nil)
	c.requireReachable()
	n, rng := c.nodes[0], rand.New(rand.NewPCG(4, 8))
	n.stop()
	index, err := n.ns.Link("wg.way")
	require.NoError(t, err)
	wire, end := n.capture(), n.startTrafficBothWays(c.nodes[1])
	for range kills {
		p := n.startChild(t.Name())
		require.NoError(t, p.in.Close())
		p.await("applied")
		// the moment is random
		<-time.NewTimer(time.Duration(rng.IntN(400)) * time.Millisecond).C
		p.kill()
	}
	end(func(sent, answered int) {
		require.Equal(t, sent, answered)
		require.Greater(t, sent, 10*kills)
	})
	require.Empty(t, plaintext(wire.packets()))
	after, err := n.ns.Link("wg.way")
	require.NoError(t, err)
	require.Equal(t, index, after)
}

// startTrafficBothWays is startTraffic in both directions and families. The returned function ends
// it, and passes the numbers of each to result.
func (n *node) startTrafficBothWays(to *node) (end func(result func(sent, answered int))) {
	n.Helper()
	var ends []func() (sent, answered int)
	for i := range n.pod.Addresses {
		ends = append(ends, n.startTraffic(to, to.pod.Addresses[i]), to.startTraffic(n, n.pod.Addresses[i]))
	}
	return func(result func(sent, answered int)) {
		n.Helper()
		for _, end := range ends {
			sent, answered := end()
			n.Logf("%d packets, %d answers", sent, answered)
			result(sent, answered)
		}
	}
}

// restartUntilKilled starts a dataplane repeatedly, for some seconds at most.
func restartUntilKilled(t *testing.T) {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	require.NoError(t, err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		update(t, graph, lines.Bytes())
	}
	require.NoError(t, lines.Err())
	graph.InSync()
	graph.Flush()
	for i := range 500 {
		d, err := wireguard.New(childConfig())
		require.NoError(t, err)
		require.NoError(t, d.Apply(t.Context(), graph.Snapshot()))
		if i == 0 {
			_, err = os.Stdout.WriteString("applied\n")
			require.NoError(t, err)
		}
		require.NoError(t, d.Resync(t.Context()))
		require.NoError(t, d.Close())
	}
	os.Exit(1) // it was not killed
}

// update updates the resource of a line.
func update(t *testing.T, graph *calcgraph.Graph, line []byte) {
	r, err := policy.Decode(line)
	require.NoError(t, err)
	graph.Update(policy.Update{Key: r.Key(), Resource: r})
}
