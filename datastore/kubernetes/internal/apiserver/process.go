// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/stretchr/testify/require"
)

// logged is how many bytes of a log a failed test shows.
const logged = 4 << 10

// process is a program that can be killed and started again.
type process struct {
	path string
	args []string
	log  string // path of the file that its output is appended to

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; nil before the first start
}

// start starts the program, which must not run.
func (p *process) start(t T) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{} // etcd reads its configuration from variables, too
	cmd.SysProcAttr = endsWithParent()
	started, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		// The kernel ends the program when this thread ends, so the thread must not be given away.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // an error means that it was killed
		}
	}()
	require.NoError(t, <-started)
	p.cmd, p.done = cmd, done
}

// running reports whether the program runs.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return p.done != nil
	}
}

// kill ends the program with SIGKILL and waits until it has ended.
func (p *process) kill() {
	if p.done != nil {
		_ = p.cmd.Process.Kill() // an error means that it has ended already
		<-p.done
	}
}

// tail returns the end of the log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	text = text[max(0, len(text)-logged):]
	return fmt.Sprintf("the end of %s:\n%s", filepath.Base(p.log), strings.TrimSpace(string(text)))
}

// freeAddress returns an address on loopback that no socket listens on. Its port is below those
// that Linux gives to clients by default, so none of them takes it while a server is down.
func freeAddress(t T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback(), 20_000+rand.IntN(12_000)))
		if err == nil {
			require.NoError(t, listener.Close())
			return listener.Addr().String()
		}
	}
	require.FailNow(t, "no free port")
	return ""
}
