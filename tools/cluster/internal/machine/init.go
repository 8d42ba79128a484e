// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	enterArgument = "machine-enter" // how Start calls this program as process 1
	initArgument  = "machine-init"  // how it then calls itself
	readyMessage  = "ready"
)

// Main runs process 1 of a machine, if Start has started this program as process 1. In this case,
// Main does not return. Otherwise it returns at once. Call it first in main.
func Main() {
	if len(os.Args) != 3 || (os.Args[1] != enterArgument && os.Args[1] != initArgument) {
		return
	}
	ready := os.NewFile(3, "ready")
	var config Config
	err := json.Unmarshal([]byte(os.Args[2]), &config)
	if err == nil && os.Args[1] == enterArgument {
		err = enterCgroup(config.Cgroup)
		if err == nil {
			// One thread is in the new namespace. After this call, all are.
			err = unix.Exec("/proc/self/exe", []string{os.Args[0], initArgument, os.Args[2]}, os.Environ())
		}
	} else if err == nil {
		err = mountFiles(config)
	}
	if err == nil {
		err = unix.Sethostname([]byte(config.Name))
	}
	if err != nil {
		fmt.Fprint(ready, err)
		os.Exit(1)
	}
	fmt.Fprint(ready, readyMessage)
	ready.Close()

	orders := make(chan []Program)
	go readOrders(orders)
	newSupervisor(config.Logs).run(orders)
}

// readOrders reads the lists of programs that Run sends.
func readOrders(orders chan<- []Program) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // not possible: process 1 holds both ends of the FIFO
			log.Printf("read programs: %v", err)
			select {}
		}
		var programs []Program
		if err := json.Unmarshal(line, &programs); err != nil {
			log.Printf("read programs: %v", err)
			continue
		}
		orders <- programs
	}
}

// mount is one call of mount(2).
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// mountFiles gives the machine the files that doc.go describes.
func mountFiles(config Config) error {
	own := func(name string) string { return filepath.Join(config.Dir, name) }
	for _, dir := range []string{"etc", "etc.work", "opt", "var-lib"} {
		if err := os.MkdirAll(own(dir), 0o755); err != nil {
			return err
		}
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, m := range []mount{
		{"", "/", "", unix.MS_PRIVATE | unix.MS_REC, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		// A new /sys shows the links of this network namespace.
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{
			"overlay", "/etc", "overlay", 0,
			fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", own("etc"), own("etc.work")),
		},
		{own("opt"), "/opt", "", unix.MS_BIND, ""},
		{own("var-lib"), "/var/lib", "", unix.MS_BIND, ""},
		{config.Logs, "/var/log", "", unix.MS_BIND, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
		}
	}
	if err := mountCgroups(all); err != nil {
		return err
	}
	// kubelet makes mounts that containers must see.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	return nil
}
