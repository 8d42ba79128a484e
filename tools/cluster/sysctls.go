// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// kubeletSysctls returns the kernel parameters that kubelet sets (setupKernelTunables of its
// container manager). They belong to no namespace, so they are the host's.
func kubeletSysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// hostSysctls has the parameters of the host from before its first cluster. The first cluster of
// the host saves the parameters. The last one to end restores them.
type hostSysctls struct {
	parameters string // folder, such as /proc/sys
	shared     string // folder of all clusters, which exists while one runs
}

func newHostSysctls() hostSysctls {
	return hostSysctls{parameters: "/proc/sys", shared: "/run/wayleave-cluster"}
}

// savedSysctls is the content of the file that all clusters share.
type savedSysctls struct {
	Values   map[string]string
	Clusters []string // their folders of state
}

// save adds a cluster, given by the folder of its state, and saves the parameters if it is the
// first.
func (h hostSysctls) save(cluster string) error {
	return h.update(func(saved *savedSysctls) error {
		if saved.Values == nil {
			values := map[string]string{}
			for _, name := range kubeletSysctls() {
				value, err := os.ReadFile(filepath.Join(h.parameters, name))
				if err != nil {
					return err
				}
				values[name] = string(value)
			}
			saved.Values = values
		}
		saved.Clusters = append(withoutCluster(saved.Clusters, cluster), cluster)
		return nil
	})
}

// restore removes a cluster, and sets the parameters that differ if it was the last. It does
// nothing for a cluster that is not in the file.
func (h hostSysctls) restore(cluster string) error {
	return h.update(func(saved *savedSysctls) error {
		if !slices.Contains(saved.Clusters, cluster) {
			return nil
		}
		rest := withoutCluster(saved.Clusters, cluster)
		if len(rest) == 0 {
			var problems []error
			for name, value := range saved.Values {
				path := filepath.Join(h.parameters, name)
				if now, err := os.ReadFile(path); err == nil && string(now) == value {
					continue
				}
				problems = append(problems, os.WriteFile(path, []byte(value), 0))
			}
			if err := errors.Join(problems...); err != nil {
				return err
			}
			saved.Values = nil
		}
		saved.Clusters = rest
		return nil
	})
}

// withoutCluster returns the clusters without one, and without those whose state was deleted by
// hand.
func withoutCluster(clusters []string, without string) []string {
	return slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool {
		_, err := os.Stat(cluster)
		return cluster == without || errors.Is(err, fs.ErrNotExist)
	})
}

// update changes the shared file while no other program does. Without values, it removes the
// folder.
func (h hostSysctls) update(change func(*savedSysctls) error) error {
	unlock, err := lockFolder(h.shared)
	if err != nil {
		return err
	}
	defer unlock()
	file := filepath.Join(h.shared, "sysctls.json")
	var saved savedSysctls
	encoded, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(encoded, &saved)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	err = change(&saved)
	if saved.Values == nil {
		return errors.Join(err, os.RemoveAll(h.shared))
	}
	if err != nil {
		return err
	}
	if encoded, err = json.Marshal(saved); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", encoded, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// lockFolder makes a folder and locks it until unlock is called. The program that had the lock may
// have removed the folder.
func lockFolder(folder string) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(folder, 0o700); errors.Is(err, fs.ErrExist) {
			continue // the other program has removed it meanwhile
		} else if err != nil {
			return nil, err
		}
		locked, err := os.Open(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for {
			err = unix.Flock(int(locked.Fd()), unix.LOCK_EX)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if err != nil {
			locked.Close()
			return nil, fmt.Errorf("lock %s: %w", folder, err)
		}
		before, err := locked.Stat()
		if now, statErr := os.Stat(folder); err == nil && statErr == nil && os.SameFile(before, now) {
			return func() { locked.Close() }, nil
		}
		locked.Close()
	}
}
