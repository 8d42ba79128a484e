// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
)

// WithoutEpoch removes the set named "epoch" from a listing by nft, because the position of this
// set depends on earlier changes.
func WithoutEpoch(listing string) string {
	epoch := regexp.MustCompile(`(?m)^\tset epoch \{\n(\t\t.*\n)*\t\}\n(\n|\z)?`)
	return epoch.ReplaceAllString(listing, "")
}

// WithoutOwner removes the owners of tables from a listing by nft, so that tests can compare it
// with tables without an owner.
func WithoutOwner(listing string) string {
	owner := regexp.MustCompile(`(?m)^(table [^\n]*\{(?: # handle \d+)?)(?: # progname [^\n]*| progname [^\n]*)?\n` +
		`\tflags (?:owner|persist|owner,persist|,)?\n\n?`)
	return owner.ReplaceAllString(listing, "$1\n")
}

// leakDeadline is the time for goroutines to end after the last test.
const leakDeadline = 5 * time.Second

// Main runs the tests of a package and exits. Call it in TestMain:
//
//	func TestMain(m *testing.M) { nstest.Main(m) }
//
// Without the rights to make network namespaces, Main runs the test binary again in a user
// namespace. If that is not possible either, tests that call New are skipped, or fail if CI=true is
// set. If a goroutine is still running after the last test, the whole run fails.
func Main(m *testing.M) {
	ran, code, err := netns.EnsureRoot()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err) // New returns it again for each test
	case ran:
		os.Exit(code)
	}
	code = m.Run()
	if leaked := leaks(); code == 0 && leaked != "" {
		fmt.Fprintf(os.Stderr, "goroutines left after the last test:\n%s\n", leaked)
		code = 1
	}
	os.Exit(code)
}

// leaks returns the stacks of the other goroutines, except the runtime's goroutine for signals.
func leaks() string {
	for deadline := time.Now().Add(leakDeadline); ; runtime.Gosched() {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for _, stack := range bytes.Split(buf, []byte("\n\n"))[1:] {
			if s := string(stack); !strings.Contains(s, "os/signal.loop") {
				left = append(left, s)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// New returns a network namespace, which is closed when the test ends. Without the rights to make
// one, it skips the test, or fails it if CI=true is set.
func New(t testing.TB) *netns.NS {
	t.Helper()
	ns, err := netns.New()
	check(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	return ns
}

// NewWorkload returns a workload linked to the node, like netns.NewWorkload. Its namespace is
// closed when the test ends.
func NewWorkload(t testing.TB, node *netns.NS, hostInterface string, addresses ...string) *netns.Workload {
	t.Helper()
	var addrs []netip.Addr
	for _, s := range addresses {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	w, err := netns.NewWorkload(node, hostInterface, addrs...)
	check(t, err)
	t.Cleanup(func() { require.NoError(t, w.NS.Close()) })
	return w
}

// NFT runs the nft command in the namespace and returns its output. Without the command, it skips
// the test.
func NFT(t testing.TB, ns *netns.NS, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		Skip(t, "needs the nft command (package nftables)")
	}
	var out []byte
	err := ns.Do(func() (err error) {
		cmd := exec.Command("nft", args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err = cmd.CombinedOutput()
		return err
	})
	require.NoError(t, err, "nft %v: %s\n%s", args, out, stdin)
	return string(out)
}

// Rename renames an interface. Before Linux 6.2, the interface must be down.
func Rename(t testing.TB, ns *netns.NS, from, to string) {
	t.Helper()
	link := func(args ...string) func() error {
		return exec.Command("ip", append([]string{"link", "set", "dev"}, args...)...).Run
	}
	if ns.Do(link(from, "name", to)) == nil {
		return
	}
	for _, run := range []func() error{link(from, "down"), link(from, "name", to), link(to, "up")} {
		require.NoError(t, ns.Do(run), "rename %s to %s", from, to)
	}
}

// Skip skips the test because something is missing on this machine. With CI=true that is a failure.
func Skip(t testing.TB, why string) {
	t.Helper()
	require.NotEqual(t, "true", os.Getenv("CI"), why)
	t.Skip("skipped: " + why) // scripts/test-kernels searches for this text
}

// check fails the test on an error, and skips it if the rights are missing.
func check(t testing.TB, err error) {
	t.Helper()
	missing := errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) ||
		errors.Is(err, syscall.ENOSPC)
	if missing {
		Skip(t, fmt.Sprintf("needs root or user namespaces: %v", err))
	}
	require.NoError(t, err)
}
