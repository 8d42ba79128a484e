// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// initGroup is the control group of process 1 and the programs, below that of the machine.
const initGroup = "init"

// unifiedTree is a hierarchy of control groups of version 2. See cgroups(7).
//
//	ROOT                       controllers enabled
//	  wayleave-cluster-1234    controllers enabled
//	    node1                  controllers enabled; the root of the machine's namespace
//	      init                 process 1 and the programs
//	      k8s.io/...           pods, made by the container runtime
//
// A group other than the root of the host cannot have both processes and controllers for the groups
// below it. So a machine's group has no process itself.
type unifiedTree struct {
	root  string
	write func(file, value string) error // to a file of the kernel
}

// enter moves this process into the group init of a machine's new group. In between, when the
// process is in the machine's group itself, it calls unshare, which makes that group the root of a
// namespace.
func (t unifiedTree) enter(name string, unshare func() error) error {
	controllers, err := os.ReadFile(filepath.Join(t.root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	available := strings.Fields(string(controllers))
	group := filepath.Join(t.root, name)
	// A machine that was killed leaves groups with controllers, and its group accepts no process
	// then.
	if err := removeGroups(group); err != nil {
		return err
	}
	parent := t.root
	for _, element := range strings.Split(name, "/") {
		if err := t.enable(parent, available); err != nil {
			return err
		}
		parent = filepath.Join(parent, element)
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(group, initGroup), 0o755); err != nil {
		return err
	}
	if err := t.write(filepath.Join(group, "cgroup.procs"), "0"); err != nil {
		return fmt.Errorf("enter control group %s: %w", group, err)
	}
	if err := unshare(); err != nil {
		return err
	}
	if err := t.write(filepath.Join(group, initGroup, "cgroup.procs"), "0"); err != nil {
		return fmt.Errorf("enter control group %s/%s: %w", group, initGroup, err)
	}
	return t.enable(group, available)
}

// enable enables controllers for the groups below a group. kubelet and the container runtime need
// cpu, memory and pids. The kernel may refuse others, which then stay disabled.
func (t unifiedTree) enable(group string, controllers []string) error {
	for _, controller := range controllers {
		err := t.write(filepath.Join(group, "cgroup.subtree_control"), "+"+controller)
		if err != nil && slices.Contains([]string{"cpu", "memory", "pids"}, controller) {
			return fmt.Errorf("enable controller %s in control group %s, which must have no process of its own: %w",
				controller, group, err)
		}
	}
	return nil
}

// writeExisting writes to a file, which it does not make.
func writeExisting(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
