// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// process is an etcd process: the program in WAYLEAVE_ETCD_SERVER, or this test binary.
type process struct {
	url  string
	args []string
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

// newProcesses starts the members of a cluster. Their data is below dir.
func newProcesses(t testing.TB, dir string, n int) []*process {
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("m%d=http://%s", i, freePort(t)))
	}
	var members []*process
	for i, peer := range peers {
		name, peer, _ := strings.Cut(peer, "=")
		client := "http://" + freePort(t)
		p := &process{url: client, args: []string{
			"--name", name, "--data-dir", filepath.Join(dir, fmt.Sprint(i)),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(peers, ","),
			"--heartbeat-interval", "20", "--election-timeout", "200",
			"--logger", "zap", "--log-level", "error", "--log-outputs", "stderr",
		}}
		p.start(t)
		t.Cleanup(p.kill)
		members = append(members, p)
	}
	return members
}

func (p *process) start(t testing.TB) {
	t.Helper()
	program := os.Getenv("WAYLEAVE_ETCD_SERVER")
	p.cmd = exec.Command(program, p.args...)
	if program == "" {
		p.cmd = exec.Command("/proc/self/exe", p.args...)
		p.cmd.Env = append(os.Environ(), serverMode+"=1")
	}
	p.cmd.Stderr = &p.log
	require.NoError(t, p.cmd.Start())
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

// kill ends the process with SIGKILL, and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// waitGone waits until the process has ended by itself.
func (p *process) waitGone(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(waitTimeout):
		require.Fail(t, "the server still runs")
	}
}

func urls(members []*process) []string {
	var out []string
	for _, p := range members {
		out = append(out, p.url)
	}
	return out
}

// ledger increases numbers in a few objects, and records which ones the store has acknowledged.
type ledger struct {
	store *etcd.Store
	acked map[string]int
	next  int
}

// write writes one number. After an error, it may have been written.
func (l *ledger) write(ctx context.Context, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	name := fmt.Sprint("p", rng.IntN(10))
	l.next++
	_, err := l.store.Put(ctx, profile(name, fmt.Sprintf("%06d", l.next)), etcd.Any)
	if err == nil {
		l.acked[name] = l.next
	}
	return err
}

// mustWrite writes until a write succeeds.
func (l *ledger) mustWrite(t testing.TB, rng *rand.Rand) {
	t.Helper()
	eventually(t, "the store to accept a write", func() bool { return l.write(t.Context(), rng) == nil })
}

// check requires that receiver and store are equal, no acknowledged write is lost, and no object
// was ever removed.
func (l *ledger) check(t testing.TB, r *receiver) {
	t.Helper()
	var want []string
	eventually(t, "a list", func() bool {
		list, err := l.store.List(t.Context(), etcd.Query{})
		want = nil
		for _, o := range list.Objects {
			want = append(want, o.Resource.Key().Name+"="+o.Resource.(*policy.Profile).LabelsToApply["v"])
		}
		return err == nil
	})
	r.wait(t, strings.Join(want, " "))
	for name, n := range l.acked {
		require.GreaterOrEqual(t, r.value(name), fmt.Sprintf("%06d", n), name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.removed)
}

// follow starts a ledger, and a Source that reads its objects.
func follow(t testing.TB, members []*process) (*ledger, *receiver, *etcd.Source, *witness) {
	client := newClientOf(t, etcd.Config{Endpoints: urls(members), Cluster: "test", RequestTimeout: time.Second})
	l := &ledger{store: newStore(t, client), acked: map[string]int{}}
	eventually(t, "the servers", func() bool { return l.store.Init(t.Context()) == nil })
	w, r := &witness{}, newReceiver()
	reader := newClientOf(t, etcd.Config{Endpoints: urls(members), Cluster: "test", RequestTimeout: time.Second})
	source, _ := start(t, quick(reader, w), r)
	r.waitInSync(t)
	return l, r, source, w
}

func TestKilledServer(t *testing.T) {
	members := newProcesses(t, t.TempDir(), 1)
	l, r, source, w := follow(t, members)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 3 {
		for range 30 {
			l.mustWrite(t, rng)
		}
		w.clear()
		go members[0].cmd.Process.Kill() // usually during the next write
		for range 30 {
			if l.write(t.Context(), rng) != nil {
				break
			}
		}
		members[0].waitGone(t)
		w.waitLost(t, "killed", func(error) bool { return true })
		members[0].start(t)
		l.mustWrite(t, rng)
		l.check(t, r)
	}
	require.Equal(t, uint64(1), source.Stats().Lists, "the watch continued from its last revision")
}

// If the disk is full, the server ends. The node keeps its objects, and continues once the disk has
// space.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mount("none", dir, "tmpfs", 0, "size=170m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	members := newProcesses(t, dir, 1)
	l, r, _, w := follow(t, members)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 30 {
		l.mustWrite(t, rng)
	}
	l.check(t, r)
	ballast := filepath.Join(dir, "ballast")
	file, err := os.Create(ballast)
	require.NoError(t, err)
	for block := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(block)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, file.Close())
	w.clear()
	raw := rawClient(t, members[0].url)
	gone := func() bool {
		select {
		case <-members[0].done:
			return true
		default:
			return false
		}
	}
	for i := 0; !gone(); i++ {
		require.Less(t, i, 10_000)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _ = raw.Put(ctx, fmt.Sprint("/other/", i%100), strings.Repeat("x", 500<<10))
		cancel()
	}
	w.waitLost(t, "the server to end", func(error) bool { return true })
	require.Len(t, l.acked, r.count())
	require.NoError(t, os.Remove(ballast))
	members[0].start(t)
	l.mustWrite(t, rng)
	l.check(t, r)
}

// Of three members, one after the other is killed, the leader first, and started again. Writes
// continue meanwhile.
func TestFailover(t *testing.T) {
	members := newProcesses(t, t.TempDir(), 3)
	l, r, source, _ := follow(t, members)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 3 {
		for range 10 {
			l.mustWrite(t, rng)
		}
		leader := findLeader(t, members)
		leader.kill()
		for range 10 {
			l.mustWrite(t, rng) // by the other two
		}
		l.check(t, r)
		leader.start(t)
		eventually(t, "all three", func() bool { return findLeader(t, []*process{leader}) != nil })
	}
	// Without a majority, writes fail, and the node keeps its objects.
	members[0].kill()
	members[1].kill()
	require.Error(t, l.write(t.Context(), rng))
	eventually(t, "the source to lose its connection", func() bool { return !source.Stats().Connected })
	members[0].start(t)
	l.mustWrite(t, rng)
	l.check(t, r)
	require.Equal(t, uint64(1), source.Stats().Lists, "the watch continued from its last revision")
}

// A leader that hangs keeps its connections open and does not answer. Sources that watch it connect
// to other members.
func TestFrozenLeader(t *testing.T) {
	members := newProcesses(t, t.TempDir(), 3)
	l, r, _, _ := follow(t, members)
	receivers := []*receiver{r}
	for range 5 { // some of them watch the leader
		more := newReceiver()
		start(t, quick(newClientOf(t,
			etcd.Config{Endpoints: urls(members), Cluster: "test", RequestTimeout: time.Second}), nil), more)
		more.waitInSync(t)
		receivers = append(receivers, more)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	l.mustWrite(t, rng)
	leader := findLeader(t, members)
	require.NoError(t, leader.cmd.Process.Signal(unix.SIGSTOP))
	for range 5 {
		l.mustWrite(t, rng) // by the other two
	}
	for _, r := range receivers {
		l.check(t, r)
	}
	require.NoError(t, leader.cmd.Process.Signal(unix.SIGCONT))
}

// findLeader returns the leader, if it is among the members.
func findLeader(t testing.TB, members []*process) *process {
	raw := rawClient(t, urls(members)...)
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, p := range members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			status, err := raw.Status(ctx, p.url)
			cancel()
			if err == nil && status.Leader != 0 && (status.Leader == status.Header.MemberId || len(members) == 1) {
				return p
			}
		}
	}
	require.Fail(t, "no leader")
	return nil
}
