// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is the unit of the processor time in /proc: a hundred a second on Linux.
const ticks = 100

// usage is the CPU time and the memory of processes.
type usage struct {
	// CPU is their processor time, in user space and in the kernel.
	CPU time.Duration
	// RSS is their resident memory in bytes, and Peak its maximum since resetPeak.
	RSS, Peak int64
}

func (u usage) add(o usage) usage { return usage{u.CPU + o.CPU, u.RSS + o.RSS, u.Peak + o.Peak} }

// since returns the processor time since an earlier usage, and the current memory.
func (u usage) since(before usage) usage { return usage{u.CPU - before.CPU, u.RSS, u.Peak} }

// usageOf returns the usage of a process.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// The name of the program is in parentheses, and may have spaces. utime and stime are fields
	// 14 and 15.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return usage{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	u := usage{CPU: time.Duration(user+system) * (time.Second / ticks)}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err := errors.Join(errUser, errSystem, err); err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kB, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			u.RSS = kB << 10
		case "VmHWM:":
			u.Peak = kB << 10
		}
	}
	return u, nil
}

// resetPeak sets the peak of a process to its current memory.
func resetPeak(pid int) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the peak of memory needs the rights of the process's user", err)
	}
	return err
}
