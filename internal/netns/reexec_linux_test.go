// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	marker = "WAYLEAVE_IN_USER_NAMESPACE=1"
	nobody = 65534
)

// asNobody runs some tests of this binary as user nobody.
func asNobody(t *testing.T, env ...string) (output string, code int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "netns") // other users cannot read t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	binary := filepath.Join(dir, "netns.test")
	copyFile(t, "/proc/self/exe", binary)

	cmd := exec.Command(binary, "-test.v", "-test.run=TestNamespacesAreEmptyAndApart|TestSysctl")
	cmd.Dir = dir
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

// Kernel tests run without root in a user namespace. Without user namespaces they skip, or fail in
// CI.
func TestKernelTestsRunWithoutRoot(t *testing.T) {
	if os.Getenv("WAYLEAVE_IN_USER_NAMESPACE") != "" {
		return // this run is in a user namespace already
	}
	out, code := asNobody(t, "CI=true")
	require.Zero(t, code, out)
	require.Contains(t, out, "--- PASS: TestSysctl")

	// The marker is that of a process in a user namespace. So EnsureRoot does not create another
	// one.
	out, code = asNobody(t, marker)
	require.Zero(t, code, out)
	require.Contains(t, out, "--- SKIP: TestSysctl")
	require.Contains(t, out, "needs root or user namespaces")

	out, code = asNobody(t, marker, "CI=true")
	require.NotZero(t, code, out)
	require.Contains(t, out, "--- FAIL: TestSysctl")
}
