// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// killedChange is a change between two states of three. The process is killed before one of its
// transactions.
type killedChange struct {
	moment, family, from, to, transaction int
	prefixes, chains                      bool
}

const (
	killedStageChild  = "WAYLEAVE_TEST_KILLED_STAGE_CHILD"
	killedStageFormat = "%d %d %d %d %d %t %t"
)

func (k *killedChange) String() string {
	return fmt.Sprintf(killedStageFormat, k.moment, k.family, k.from, k.to, k.transaction, k.prefixes, k.chains)
}

func (k *killedChange) config() render.Config {
	if k.chains {
		return render.Config{Classes: nfttest.Chains()}
	}
	return render.Config{}
}

// state returns a state where untracked or pre-DNAT policy denies the forbidden port (0), normal
// policy does (1), or both do (2).
func (k *killedChange) state(i int) dptest.State {
	m := hostMoments()[k.moment]
	s := deniedInStage(m, k.family, i == 0)
	if i == 2 {
		s = withStage(m, k.family, floodForbidden, floodForbidden)
	}
	if k.prefixes { // then the change uses shadows
		s.Sets["s:other"] = netMembers(otherNets(byte(20 + i))...)
	}
	return s
}

// TestWireKilledStageChild is not a test, but the process that TestWireKilledBetweenTransactions
// kills.
func TestWireKilledStageChild(t *testing.T) {
	if os.Getenv(killedStageChild) == "" {
		return
	}
	var k killedChange
	_, err := fmt.Sscanf(os.Getenv(killedStageChild), killedStageFormat, &k.moment, &k.family, &k.from, &k.to,
		&k.transaction, &k.prefixes, &k.chains)
	require.NoError(t, err)
	left := -1
	plane, err := nft.New(nft.Config{Renderer: k.config(), NetNS: 3, BeforeWrite: func() error {
		if left == 0 {
			return unix.Kill(unix.Getpid(), unix.SIGKILL)
		}
		left--
		return nil
	}})
	require.NoError(t, err)
	require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), k.state(k.from))))
	left = k.transaction
	require.NoError(t, plane.Apply(t.Context(), dptest.Transition(k.state(k.from), k.state(k.to))))
	require.NoError(t, plane.Close())
}

// S173: a process is killed before each transaction of a change that uses a stage guard. The next
// process adopts the table with any of three states. All of them deny the flood, and no packet of
// it passes. In the end, the guard is deleted.
func TestWireKilledBetweenTransactions(t *testing.T) {
	nfttest.EachForm(t, testWireKilledBetweenTransactions)
}

func testWireKilledBetweenTransactions(t *testing.T, classes render.ClassesConfig) {
	subtest := 0
	eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
		k := &killedChange{family: family, chains: classes.TestHook.HasChains()}
		for hostMoments()[k.moment].name != m.name {
			k.moment++
		}
		if n.delayBetweenStages(t); !wireWhole() {
			k.prefixes = family == 1
			n.killedChanges(t, k, subtest, 1)
		} else {
			n.killedChanges(t, k, 0, 60)
			k.prefixes = true
			n.killedChanges(t, k, 0, 60)
		}
		subtest++
	})
}

// killedChanges makes changes during the flood. Each process is killed one transaction later than
// the one before.
func (n *floodNet) killedChanges(t *testing.T, k *killedChange, first, changes int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(first), uint64(k.moment)))
	adopt := func(state int) {
		plane := open(t, n.node, k.config())
		require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), k.state(state))))
		require.NoError(t, plane.Close())
	}
	adopt(0)
	at, completed, left := 0, 0, 0
	sent := n.during(t, func() {
		for i := range changes {
			k.from, k.to, k.transaction = at, (at+1+rng.IntN(2))%3, 1+(first+i)%9
			if n.isCompleted(t, k) {
				completed++
			}
			if bytes.Contains([]byte(list(t, n.node)), []byte("shadow-")) {
				left++
			}
			at = rng.IntN(3)
			adopt(at)
			require.NotContains(t, list(t, n.node), "shadow-")
		}
	})
	forbidden, _ := n.arrived(t)
	t.Logf("%d changes, %d completed, %d left guards or shadows; %d forbidden packets, %d passed", changes, completed,
		left, sent, forbidden)
	require.Zero(t, forbidden, "forbidden packets that passed")
}

// isCompleted makes a change in another process, and reports whether it was completed because it
// has fewer transactions.
func (n *floodNet) isCompleted(t *testing.T, k *killedChange) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestWireKilledStageChild$")
	cmd.Env = append(os.Environ(), killedStageChild+"="+k.String())
	file := os.NewFile(uintptr(dup(t, n.node.FD())), "netns")
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the child ends with the thread that started it
	defer runtime.UnlockOSThread()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	require.NoError(t, file.Close())
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	status := cmd.ProcessState.ExitCode()
	require.Contains(t, []int{-1, 0}, status, output.String())
	return status == 0
}
