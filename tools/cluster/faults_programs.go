// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// killContainer kills the container or the sandbox of a prober, as a fault of the node does.
func (r *faultRun) killContainer(ctx context.Context, pod, kind string) error {
	node := r.pods[pod].node
	ids, err := r.ctrOutput(ctx, node, "containers", "ls", "-q",
		fmt.Sprintf(`labels."io.kubernetes.pod.name"==%q,labels."io.cri-containerd.kind"==%q`, pod, kind))
	if err != nil {
		return err
	}
	tasks, err := r.ctrOutput(ctx, node, "tasks", "ls")
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(ids) {
		for line := range strings.Lines(tasks) {
			fields := strings.Fields(line)
			if len(fields) == 3 && fields[0] == id && fields[2] == "RUNNING" {
				r.progress("the %s of %s is killed", kind, pod)
				return r.ctr(ctx, node, "tasks", "kill", "--signal", "SIGKILL", id)
			}
		}
	}
	return fmt.Errorf("pod %s has no %s that runs", pod, kind)
}

func (r *faultRun) ctr(ctx context.Context, node string, args ...string) error {
	_, err := r.ctrOutput(ctx, node, args...)
	return err
}

func (r *faultRun) ctrOutput(ctx context.Context, node string, args ...string) (string, error) {
	m, err := machine.Open(r.c.machine(node))
	if err != nil {
		return "", err
	}
	cmd := m.Command(ctx, append([]string{"ctr", "--namespace", "k8s.io"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+r.c.path())
	printed, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("ctr %s on %s: %w: %s", strings.Join(args, " "), node, err,
			strings.TrimSpace(string(exit.Stderr)))
	}
	return string(printed), err
}

const apiServerName = "kube-apiserver"

// killProgram kills the process of a program of a machine.
func (r *faultRun) killProgram(ctx context.Context, m *machine.Machine, program string) error {
	log, err := os.ReadFile(r.c.logs(m.Name, "init.log"))
	if err != nil {
		return err
	}
	line := log[max(0, bytes.LastIndex(log, []byte(" "+program+" runs as process "))):]
	_, last, found := strings.Cut(string(line), " runs as process ")
	pid, _, _ := strings.Cut(last, "\n")
	if !found {
		return fmt.Errorf("machine %s has not started %s", m.Name, program)
	}
	return output(m.Command(ctx, "kill", "-KILL", pid))
}

// runControl runs the control plane without some programs, and waits until these have ended.
func (r *faultRun) runControl(ctx context.Context, without ...string) error {
	return r.runPrograms(ctx, controlName, without...)
}

// restartPrograms ends programs of a machine, and starts them again also if ctx is done before.
func (r *faultRun) restartPrograms(ctx context.Context, name string, programs ...string) error {
	err := r.runPrograms(ctx, name, programs...)
	return errors.Join(err, r.runPrograms(context.WithoutCancel(ctx), name))
}

// runPrograms runs the programs of a machine without some, and waits until these have ended.
func (r *faultRun) runPrograms(ctx context.Context, name string, without ...string) error {
	m, err := machine.Open(r.c.machine(name))
	if err != nil {
		return err
	}
	if len(without) == 0 {
		return m.Run(r.c.programs(name))
	}
	ended := func() (map[string]int, error) {
		counts := map[string]int{}
		log, err := os.ReadFile(r.c.logs(name, "init.log"))
		for _, program := range without {
			counts[program] = bytes.Count(log, []byte(" "+program+" ended\n"))
		}
		return counts, err
	}
	before, err := ended()
	if err != nil {
		return err
	}
	all := r.c.programs(name)
	kept := slices.DeleteFunc(slices.Clone(all), func(s machine.Program) bool {
		return slices.Contains(without, s.Name)
	})
	if len(kept)+len(without) != len(all) {
		return fmt.Errorf("machine %s lacks one of the programs %q", name, without)
	}
	if err := m.Run(kept); err != nil {
		return err
	}
	if slices.Contains(without, apiServerName) {
		// Its end would take a minute in which it still answers, and much longer without etcd.
		if err := r.killProgram(ctx, m, apiServerName); err != nil {
			return err
		}
	}
	return r.until(ctx, fmt.Sprintf("%s has ended %s", name, strings.Join(without, ", ")), func() (bool, error) {
		now, err := ended()
		return !slices.ContainsFunc(without, func(s string) bool { return now[s] == before[s] }), err
	})
}
