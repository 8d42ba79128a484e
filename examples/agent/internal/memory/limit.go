// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Limit is the memory that the process may use.
type Limit struct {
	// Env is the limit that the environment variable GOMEMLIMIT sets for the Go runtime, in bytes.
	// 0 means no limit.
	Env int64
	// Cgroup is the limit of the cgroup in bytes; 0 means no limit. File is the file from which
	// this limit was read.
	Cgroup int64
	File   string
}

// unlimited is a very large number: a limit of a cgroup from this number on means no limit.
const unlimited = 1 << 60

// Read returns the limit of the Go runtime that GOMEMLIMIT sets, and the limit of the cgroup. The
// limit of the cgroup is the smallest limit of the process's cgroup and its ancestors.
func Read(root fs.FS) Limit {
	l := readCgroup(root)
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		l.Env = limit
	}
	return l
}

// usable is the part of the cgroup's limit that the Go runtime may use. The rest is for kernel
// memory and the pages of the program's file.
func (l Limit) usable() int64 { return l.Cgroup / 10 * 9 }

// readCgroup reads the limits of cgroups of version 1 and 2.
func readCgroup(root fs.FS) Limit {
	var least Limit
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // a file that cannot be read means no limit
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		// In a container, the path may be that of the host, while the cgroup is at the mount point.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			name := path.Join(mount, group, file)
			if n := readNumber(root, name); n > 0 && (least.Cgroup == 0 || n < least.Cgroup) {
				least = Limit{Cgroup: n, File: "/" + name}
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// readNumber returns 0 for no limit.
func readNumber(root fs.FS, name string) int64 {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || n >= unlimited { // "max", or a number that means no limit
		return 0
	}
	return n
}

// Set sets the limit of the Go runtime to 90 % of the cgroup's limit. If GOMEMLIMIT sets a limit in
// the environment, Set keeps that limit.
func Set(l Limit) {
	if l.Cgroup > 0 && l.Env == 0 {
		debug.SetMemoryLimit(l.usable())
	}
}

// String returns the limits, and where they come from.
func (l Limit) String() string {
	var texts []string
	if l.Cgroup > 0 {
		texts = append(texts, fmt.Sprintf("%d MiB (%s)", l.Cgroup>>20, l.File))
	}
	if l.Env > 0 {
		texts = append(texts, fmt.Sprintf("%d MiB (GOMEMLIMIT)", l.Env>>20))
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, " and ")
}
