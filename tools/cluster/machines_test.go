// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// newMachines returns a cluster of one node whose programs are scripts, with the machine of its
// control plane and its bridge.
func newMachines(t *testing.T) (*cluster, *machine.Machine) {
	t.Helper()
	c := &cluster{repository: newRepository(t, ""), options: options{Nodes: 1}}
	for _, program := range []string{
		"containerd/usr/bin/containerd", "kubernetes/kubelet", "kubernetes/kube-proxy",
		"cluster-programs/host-local", "cluster-programs/loopback", "cluster-programs/portmap",
	} {
		makeFile(t, c.bin(program), "#!/bin/sh\nexec sleep 1000\n")
	}
	t.Cleanup(func() { require.NoError(t, c.down()) })
	control, err := machine.Start(t.Context(), c.machine(controlName))
	require.NoError(t, err)
	require.NoError(t, addBridge(t.Context(), control))
	return c, control
}

// programStarts returns how often programs of the node have started, and how many of these have
// ended.
func programStarts(c *cluster, program string) (started, ended int) {
	log, _ := os.ReadFile(c.logs("node1", "init.log"))
	count := func(text string) int { return strings.Count(string(log), " "+program+text) }
	return count(" runs as process "), count(" ended\n")
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 20*time.Millisecond)
}

// requireNode requires that the node has its network and runs its programs.
func requireNode(t *testing.T, c *cluster) {
	t.Helper()
	node, err := machine.Open(c.machine("node1"))
	require.NoError(t, err)
	printed, err := node.NetCommand(t.Context(), "ip", "-brief", "address", "show", "dev", "eth0").Output()
	require.NoError(t, err)
	require.Contains(t, string(printed), "172.30.0.11/24")
	for _, program := range []string{"containerd", "kubelet", "kube-proxy"} {
		eventually(t, func() bool {
			started, ended := programStarts(c, program)
			return started == ended+1
		})
	}
}

func TestHalfStartedNodeIsReplaced(t *testing.T) {
	c, control := newMachines(t)
	r := &faultRun{c: c}
	half := func() int {
		node, err := machine.Start(t.Context(), c.machine("node1"))
		require.NoError(t, err)
		return node.PID()
	}
	kill := func() {
		node, err := machine.Open(c.machine("node1"))
		require.NoError(t, err)
		require.NoError(t, node.Kill())
		require.NoError(t, os.Remove(c.logs("node1", "init.log")))
	}
	// The clean-up of a scenario replaces the node and its link. So does the command start.
	half()
	require.NoError(t, ipCommands(t.Context(), control, "link add node1 type veth peer name other"))
	r.ensureNode(t.Context(), 0)
	requireNode(t, c)
	require.ErrorContains(t, runStart(t.Context(), c, []string{"node1"}), "node node1 runs already")

	kill()
	pid := half()
	require.NoError(t, runStart(t.Context(), c, []string{"node1"}))
	requireNode(t, c)
	node, err := machine.Open(c.machine("node1"))
	require.NoError(t, err)
	require.NotEqual(t, pid, node.PID())

	// A start that fails leaves no machine.
	kill()
	require.NoError(t, ipCommands(t.Context(), control, "link del cluster0"))
	require.ErrorContains(t, c.startNode(t.Context(), 0), "cluster0")
	_, err = machine.Open(c.machine("node1"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestProgramsAreStartedAgainAfterAnInterrupt(t *testing.T) {
	c, _ := newMachines(t)
	// The program takes a second to end.
	makeFile(t, c.bin("kubernetes/kubelet"), "#!/bin/sh\ntrap 'sleep 1; exit' TERM\ntouch "+
		filepath.Join(c.logs("node1"), "trapped")+"\nwhile :; do sleep 0.05; done\n")
	require.NoError(t, c.startNode(t.Context(), 0))
	requireNode(t, c)
	eventually(t, func() bool {
		_, err := os.Stat(c.logs("node1", "trapped"))
		return err == nil
	})
	r := &faultRun{c: c}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.restartPrograms(ctx, "node1", "kubelet", "kube-proxy"), context.DeadlineExceeded)
	for _, program := range []string{"kubelet", "kube-proxy"} {
		eventually(t, func() bool {
			started, ended := programStarts(c, program)
			return started == 2 && ended == 1
		})
	}
}

func TestChurnEndsWithItsEdits(t *testing.T) {
	c, _ := newMachines(t)
	// Policies take some time. The pods cannot be created, so the scenario returns early.
	log := filepath.Join(c.repository, "log")
	makeFile(t, c.bin("kubernetes/kubectl"), `#!/bin/sh
if grep -q ReplicaSet; then sleep 1; exit 1; fi
echo begin >>`+log+`; sleep 0.5; echo end >>`+log+"\n")
	r := &faultRun{c: c, loadPods: 1}
	require.Error(t, r.churn(t.Context()))
	atReturn, err := os.ReadFile(log)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(atReturn), "begin\nend\n"), "%s", atReturn)
	require.Never(t, func() bool {
		now, err := os.ReadFile(log)
		return err != nil || string(now) != string(atReturn)
	}, 2*time.Second, 100*time.Millisecond)

	stop := r.editPolicies(t.Context())
	_, err = stop()
	require.NoError(t, err)
	_, err = stop()
	require.NoError(t, err)
}
