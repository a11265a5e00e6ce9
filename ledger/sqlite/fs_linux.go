package sqlite

import "syscall"

// fileSystemType is statfs's f_type of the file system that holds path.
func fileSystemType(path string) (uint32, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint32(st.Type), nil // magic numbers have 32 bits; the field's width differs by platform
}
