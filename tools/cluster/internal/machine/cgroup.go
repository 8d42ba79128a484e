// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchy is a mounted hierarchy of control groups. Version 1 has several, version 2 has one.
type hierarchy struct {
	path    string // mount point
	kind    string // of the file system: cgroup or cgroup2
	options string // of the mount
}

// hierarchies returns the mounts below /sys/fs/cgroup, as proc_pid_mountinfo(5) lists them.
func hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		mount, super := strings.Fields(left), strings.Fields(right)
		if len(mount) < 5 || len(super) < 3 || !strings.HasPrefix(super[0], "cgroup") {
			continue
		}
		h := hierarchy{path: mount[4], kind: super[0]}
		if h.path != cgroupRoot && !strings.HasPrefix(h.path, cgroupRoot+"/") {
			continue
		}
		if h.kind == "cgroup" {
			options := slices.DeleteFunc(strings.Split(super[2], ","), func(option string) bool {
				return option == "rw" || option == "ro"
			})
			if strings.HasPrefix(options[len(options)-1], "name=") {
				options = append([]string{"none"}, options...) // it has no controller
			}
			h.options = strings.Join(options, ",")
		}
		found = append(found, h)
	}
	return found, nil
}

// isUnified reports whether a hierarchy is that of a host that uses version 2 for all controllers.
// Where it is mounted elsewhere, the controllers belong to hierarchies of version 1.
func (h hierarchy) isUnified() bool { return h.kind == "cgroup2" && h.path == cgroupRoot }

// enterCgroup moves this process into a control group in all hierarchies. It makes that group the
// root of a new namespace of control groups, for the calling thread only.
func enterCgroup(name string) error {
	runtime.LockOSThread()
	all, err := hierarchies()
	if err != nil {
		return err
	}
	unshare := func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }
	var unified *unifiedTree
	for _, h := range all {
		if h.isUnified() {
			unified = &unifiedTree{root: h.path, write: writeExisting}
		} else if err := h.enter(name); err != nil {
			return err
		}
	}
	if unified != nil {
		return unified.enter(name, unshare)
	}
	return unshare()
}

// enter moves this process into a control group, which it makes.
func (h hierarchy) enter(name string) error {
	group := h.path
	for _, element := range strings.Split(name, "/") {
		parent := group
		group = filepath.Join(group, element)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A new group of the controller cpuset has no processors and accepts no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if errors.Is(err, fs.ErrNotExist) || h.kind == "cgroup2" {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(group, file), value, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("enter control group %s: %w", group, err)
	}
	return nil
}

// mountCgroups mounts the hierarchies on an empty /sys/fs/cgroup. Each mount shows the machine's
// part of the hierarchy.
func mountCgroups(all []hierarchy) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if !slices.ContainsFunc(all, func(h hierarchy) bool { return h.path == cgroupRoot }) {
		if err := unix.Mount("tmpfs", cgroupRoot, "tmpfs", flags, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", cgroupRoot, err)
		}
	}
	for _, h := range all {
		if err := os.MkdirAll(h.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(h.kind, h.path, h.kind, flags, h.options); err != nil {
			return fmt.Errorf("mount %s: %w", h.path, err)
		}
	}
	return nil
}

// RemoveCgroup removes a control group and those below it, in all hierarchies.
func RemoveCgroup(name string) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return fmt.Errorf("control group %q is not below the root", name)
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var problems []error
	for _, h := range all {
		problems = append(problems, removeGroups(filepath.Join(h.path, name)))
	}
	return errors.Join(problems...)
}

// killGroup kills the processes in a control group. There are some if the program that made a
// machine was killed before it wrote down the machine's process.
func killGroup(group string) {
	for text := range strings.FieldsSeq(readFile(filepath.Join(group, "cgroup.procs"))) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// readFile returns the content of a file, "" if it cannot be read.
func readFile(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(content)
}

// removeGroups removes a control group and those below it. The kernel refuses that for a moment
// after the end of their last process.
func removeGroups(root string) error {
	const attempts, pause = 100, 20 * time.Millisecond
	var groups []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	var problems []error
	for _, group := range slices.Backward(groups) {
		killGroup(group)
		err := unix.Rmdir(group)
		for attempt := 1; errors.Is(err, unix.EBUSY) && attempt < attempts; attempt++ {
			time.Sleep(pause)
			err = unix.Rmdir(group)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("remove control group %s: %w", group, err))
		}
	}
	return errors.Join(problems...)
}
