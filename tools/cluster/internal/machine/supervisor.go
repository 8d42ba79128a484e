// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// restartDelay is the time between the end of a program and its next start.
const restartDelay = time.Second

// supervisor is the process 1: it keeps programs running, and waits for every process whose parent
// has ended.
type supervisor struct {
	logs     string
	wanted   []Program
	pids     map[string]int       // of the programs that run
	earliest map[string]time.Time // when a program may start again
}

func newSupervisor(logs string) *supervisor {
	return &supervisor{logs: logs, pids: map[string]int{}, earliest: map[string]time.Time{}}
}

// run never returns.
func (s *supervisor) run(orders <-chan []Program) {
	ended := make(chan int)
	go waitForChildren(ended)
	tick := time.NewTicker(restartDelay / 4)
	for {
		select {
		case s.wanted = <-orders:
			s.stopUnwanted()
		case pid := <-ended:
			s.ended(pid)
		case <-tick.C:
		}
		s.startMissing()
	}
}

// waitForChildren sends the IDs of all child processes that end. A program is started by
// os.StartProcess, and nothing else waits for it.
func waitForChildren(ended chan<- int) {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil { // no child, or interrupted
			time.Sleep(restartDelay / 4)
			continue
		}
		ended <- pid
	}
}

func (s *supervisor) stopUnwanted() {
	for name, pid := range s.pids {
		if !slices.ContainsFunc(s.wanted, func(wanted Program) bool { return wanted.Name == name }) {
			log.Printf("stop %s", name)
			_ = unix.Kill(-pid, unix.SIGTERM)
		}
	}
}

func (s *supervisor) ended(pid int) {
	for name, running := range s.pids {
		if running == pid {
			log.Printf("%s ended", name)
			delete(s.pids, name)
			s.earliest[name] = time.Now().Add(restartDelay)
		}
	}
}

func (s *supervisor) startMissing() {
	for _, program := range s.wanted {
		if _, runs := s.pids[program.Name]; runs || time.Now().Before(s.earliest[program.Name]) {
			continue
		}
		pid, err := s.start(program)
		if err != nil {
			log.Printf("start %s: %v", program.Name, err)
			s.earliest[program.Name] = time.Now().Add(restartDelay)
			continue
		}
		s.pids[program.Name] = pid
	}
}

func (s *supervisor) start(program Program) (int, error) {
	path, err := exec.LookPath(program.Args[0])
	if err != nil {
		return 0, err
	}
	output, err := os.OpenFile(filepath.Join(s.logs, program.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer output.Close()
	process, err := os.StartProcess(path, program.Args, &os.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), program.Env...),
		Files: []*os.File{nil, output, output},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	pid := process.Pid // Release clears it
	log.Printf("%s runs as process %d", program.Name, pid)
	return pid, process.Release()
}
