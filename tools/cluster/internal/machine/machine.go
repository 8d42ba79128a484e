// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Config describes a machine.
type Config struct {
	// Name is the host name of the machine.
	Name string
	// Dir is the absolute path of the machine's folder. It must not be in /etc, /opt, /run,
	// /var/lib or /var/log, because the machine does not share these with the host.
	Dir string
	// Logs is the folder that the machine has as /var/log. It also has the output of each program,
	// as PROGRAM.log.
	Logs string
	// Cgroup is the control group of the machine, below the root of each hierarchy, as "a" or
	// "a/b". Remove removes it.
	Cgroup string
}

// Program is a program that the machine keeps running.
type Program struct {
	Name string   // identifies the program in Run, and names its log
	Args []string // the program and its arguments
	Env  []string // in addition to the environment of the machine, as NAME=VALUE
}

// Machine is a machine that was started. Several goroutines may use it, and so may several
// programs: see [Open].
type Machine struct {
	Config
	pid int
}

// Start starts process 1 of a machine, and waits until the machine's files are mounted. The
// machine's network has no link but lo, and no program runs until Run is called.
func Start(ctx context.Context, config Config) (*Machine, error) {
	if !filepath.IsAbs(config.Dir) || filepath.Clean(config.Dir) != config.Dir || config.Dir == "/" {
		return nil, fmt.Errorf("machine %s: folder %q is not an absolute path of its own", config.Name, config.Dir)
	}
	for _, dir := range []string{"/etc", "/opt", "/run", "/var/lib", "/var/log"} {
		if config.Dir == dir || strings.HasPrefix(config.Dir, dir+"/") {
			return nil, fmt.Errorf("machine %s: folder %s is in %s, which each machine has of its own",
				config.Name, config.Dir, dir)
		}
	}
	if !filepath.IsLocal(config.Cgroup) || filepath.Clean(config.Cgroup) != config.Cgroup {
		return nil, fmt.Errorf("machine %s: control group %q is not below the root", config.Name, config.Cgroup)
	}
	for _, dir := range []string{config.Dir, config.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("machine %s: %w", config.Name, err)
		}
	}
	m := &Machine{Config: config}
	if err := m.start(ctx); err != nil {
		return nil, fmt.Errorf("machine %s: %w", config.Name, err)
	}
	return m, nil
}

// start starts process 1 in new namespaces. Its standard input is a FIFO, so that Run works from
// any program.
func (m *Machine) start(ctx context.Context) error {
	if err := os.Remove(m.path("control")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Mkfifo(m.path("control"), 0o600); err != nil {
		return fmt.Errorf("make control: %w", err)
	}
	control, err := os.OpenFile(m.path("control"), os.O_RDWR, 0) // with both ends, opening does not block
	if err != nil {
		return err
	}
	defer control.Close()
	log, err := os.OpenFile(filepath.Join(m.Logs, "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, written, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()

	config, err := json.Marshal(m.Config)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", enterArgument, string(config))
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = control, log, log
	cmd.ExtraFiles = []*os.File{written}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start process 1: %w", err)
	}
	written.Close()
	m.pid = cmd.Process.Pid
	stopWaiting := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stopWaiting()

	problem, err := io.ReadAll(ready)
	if err == nil && string(problem) != readyMessage {
		err = fmt.Errorf("process 1: %s", strings.TrimSpace(string(problem)))
		if len(problem) == 0 {
			err = fmt.Errorf("process 1 ended, see %s", log.Name())
		}
	}
	if err == nil {
		err = m.saveIdentity("pid")
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return errors.Join(err, ctx.Err())
	}
	// Process 1 is to outlive this program. Until then, something must wait for it.
	go func() { _ = cmd.Wait() }()
	return nil
}

// Open returns a machine that runs, started by this or another program. The error is
// [fs.ErrNotExist] if it does not run.
func Open(config Config) (*Machine, error) {
	m := &Machine{Config: config}
	saved, err := os.ReadFile(m.path("pid"))
	if err != nil {
		return nil, fmt.Errorf("machine %s does not run: %w", config.Name, fs.ErrNotExist)
	}
	pid, _, _ := strings.Cut(string(saved), " ")
	if m.pid, err = strconv.Atoi(pid); err != nil {
		return nil, fmt.Errorf("machine %s: read %s: %w", config.Name, m.path("pid"), err)
	}
	if identity, err := identity(m.pid); err != nil || identity != string(saved) {
		return nil, fmt.Errorf("machine %s does not run: %w", config.Name, fs.ErrNotExist)
	}
	return m, nil
}

// PID returns the process ID of process 1 on the host.
func (m *Machine) PID() int { return m.pid }

// Run makes the machine run these programs, after its network is set up. Programs of an earlier
// call that are not in this one are stopped.
func (m *Machine) Run(programs []Program) error {
	message, err := json.Marshal(programs)
	if err != nil {
		return err
	}
	control, err := os.OpenFile(m.path("control"), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	defer control.Close()
	// A FIFO holds 64 KiB. A longer message waits here until process 1 reads.
	if _, err := control.Write(append(message, '\n')); err != nil {
		return fmt.Errorf("machine %s: send programs: %w", m.Name, err)
	}
	if err := m.saveIdentity("configured"); err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	return nil
}

// Configured reports whether Run has been called since the machine was started. The program that
// starts a machine sets up the network before it calls Run. So if Configured returns false, the
// network may be incomplete.
func (m *Machine) Configured() bool {
	started, err := os.ReadFile(m.path("pid"))
	if err != nil {
		return false
	}
	configured, err := os.ReadFile(m.path("configured"))
	return err == nil && string(configured) == string(started)
}

// Command returns a command that runs on the machine, in all its namespaces.
func (m *Machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	namespaces := []string{
		"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--",
	}
	return exec.CommandContext(ctx, "nsenter", append(namespaces, args...)...)
}

// NetCommand returns a command that runs in the machine's network namespace. All its other
// namespaces are the caller's.
func (m *Machine) NetCommand(ctx context.Context, args ...string) *exec.Cmd {
	namespace := fmt.Sprintf("--net=/proc/%d/ns/net", m.pid)
	return exec.CommandContext(ctx, "nsenter", append([]string{namespace, "--"}, args...)...)
}

// Kill ends the machine as a power failure does, and waits until all its processes have ended.
func (m *Machine) Kill() error {
	if m.pid == 0 {
		return nil
	}
	if _, err := Open(m.Config); err != nil {
		return nil // it has ended, and another process may have its ID
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", m.pid))
	if err != nil {
		return nil // it has ended
	}
	if err := unix.Kill(m.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("machine %s: kill: %w", m.Name, err)
	}
	for range 200 {
		if !anyProcessIn(namespace) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("machine %s: processes are left after 10 s", m.Name)
}

// Remove kills the machine, if it runs, and removes its folder and its control groups. Its logs
// stay.
func (m *Machine) Remove() error {
	if err := m.Kill(); err != nil {
		return err
	}
	if err := RemoveCgroup(m.Cgroup); err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	if err := os.RemoveAll(m.Dir); err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	return nil
}

func (m *Machine) path(name string) string { return filepath.Join(m.Dir, name) }

// saveIdentity writes the identity of process 1 to a file in the machine's folder.
func (m *Machine) saveIdentity(file string) error {
	identity, err := identity(m.pid)
	if err != nil {
		return err
	}
	return os.WriteFile(m.path(file), []byte(identity), 0o644)
}

// identity returns a process ID and the time at which the process started, because process IDs
// are used again.
func identity(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name in parentheses may contain spaces. See proc_pid_stat(5): starttime is field 22.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fmt.Sprintf("%d %s", pid, fields[19]), nil
}

// anyProcessIn reports whether a process is in a PID namespace, given as the link in /proc names
// it.
func anyProcessIn(namespace string) bool {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == namespace {
			return true
		}
	}
	return false
}
