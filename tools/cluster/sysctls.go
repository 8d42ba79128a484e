// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// kubeletSysctls returns the kernel parameters that kubelet sets (setupKernelTunables of its
// container manager). They belong to no namespace, so they are the host's.
func kubeletSysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// saveSysctls saves the parameters of the kernel in folder, such as /proc/sys, to a file.
func saveSysctls(folder, file string) error {
	values := map[string]string{}
	for _, name := range kubeletSysctls() {
		value, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		values[name] = string(value)
	}
	encoded, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o600)
}

// restoreSysctls sets the parameters that saveSysctls has saved, and those only that differ. Without
// a file it does nothing.
func restoreSysctls(folder, file string) error {
	encoded, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values := map[string]string{}
	if err := json.Unmarshal(encoded, &values); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	var problems []error
	for name, value := range values {
		path := filepath.Join(folder, name)
		if now, err := os.ReadFile(path); err == nil && string(now) == value {
			continue
		}
		problems = append(problems, os.WriteFile(path, []byte(value), 0))
	}
	return errors.Join(problems...)
}
