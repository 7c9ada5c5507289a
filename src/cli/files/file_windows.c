// file_windows.c: whole files on Windows; see file.h. Paths are UTF-8 of any length. Links and
// permissions are left to the system: a file that replaces another inherits its folder's access
// list.
#define WIN32_LEAN_AND_MEAN
#define UNICODE
#include "cli/files/file.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>

#define TRANSFER_BYTES ((size_t)1 << 30)
#define PREFIX L"\\\\?\\"

// Report the system's message for the last failure, without its newline.
static bool refuse_last(reason why, const char *path) {
    char text[160] = "";
    const DWORD code = GetLastError();
    DWORD length = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0,
                                  text, sizeof text, NULL);
    while (length && strchr("\r\n .", text[length - 1])) text[--length] = '\0';
    return refuse(why, "%s: %s (%lu)", path, text, (unsigned long)code);
}

// The absolute path as wide characters, malloc'ed. Except for devices and network paths it has the
// prefix that lifts the limit of 260 characters.
static wchar_t *wide_path(const char *path) {
    const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = count > 0 ? malloc((size_t)count * sizeof *wide) : NULL;
    if (wide) (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, count);
    const DWORD room = wide ? GetFullPathNameW(wide, 0, NULL, NULL) : 0;
    const size_t head = wcslen(PREFIX);
    wchar_t *all = room ? malloc((room + head) * sizeof *all) : NULL;
    const DWORD length = all ? GetFullPathNameW(wide, room, all + head, NULL) : 0;
    free(wide);
    if (!length || length >= room) return free(all), NULL;
    if (all[head] == L'\\' && all[head + 1] == L'\\')
        memmove(all, all + head, (length + 1) * sizeof *all);
    else
        memcpy(all, PREFIX, head * sizeof *all);
    return all;
}

bool file_open(const char *path, file_source *source, reason why) {
    *source = (file_source){.name = path, .descriptor = -1};
    BY_HANDLE_FILE_INFORMATION facts;
    wchar_t *wide = wide_path(path);
    const HANDLE file = wide ? CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL)
                             : INVALID_HANDLE_VALUE;
    free(wide);
    if (file == INVALID_HANDLE_VALUE) return refuse_last(why, path);
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileInformationByHandle(file, &facts) ||
        facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
        (void)CloseHandle(file);
        return refuse(why, "%s: not a regular file", path);
    }
    source->size = (uint64_t)facts.nFileSizeHigh << 32 | facts.nFileSizeLow;
    source->descriptor = _open_osfhandle((intptr_t)file, _O_RDONLY | _O_BINARY);
    return source->descriptor >= 0 ? true : refuse(why, "%s: too many open files", path);
}

void file_close(file_source *source) {
    if (source->descriptor >= 0) (void)_close(source->descriptor);
    source->descriptor = -1;
}

bool file_read_disk(const file_source *source, uint64_t offset, void *bytes, size_t count, reason why) {
    const HANDLE file = (HANDLE)_get_osfhandle(source->descriptor);
    for (unsigned char *to = bytes; count;) {
        OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
        DWORD got = 0;
        if (!ReadFile(file, to, (DWORD)(count < TRANSFER_BYTES ? count : TRANSFER_BYTES), &got, &at) &&
            GetLastError() != ERROR_HANDLE_EOF)
            return refuse_last(why, source->name);
        if (got == 0) return refuse(why, "%s: became shorter while it was read", source->name);
        to += got;
        offset += got;
        count -= got;
    }
    return true;
}

void file_begin(void) {} // permissions are the folder's

bool file_can_write(const char *path, reason why) {
    wchar_t *wide = path[0] ? wide_path(path) : NULL;
    if (!wide) return refuse(why, "%s: cannot be written: no such file or folder", path);
    const DWORD exists = GetFileAttributesW(wide);
    wchar_t *slash = wcsrchr(wide, L'\\');
    if (slash) *slash = L'\0';
    const DWORD folder = wcsncmp(wide, L"\\\\.", 3) ? GetFileAttributesW(wide) : FILE_ATTRIBUTE_DIRECTORY;
    free(wide);
    if (exists != INVALID_FILE_ATTRIBUTES && exists & FILE_ATTRIBUTE_DIRECTORY)
        return refuse(why, "%s: is a folder: a file's name is needed", path);
    if (folder == INVALID_FILE_ATTRIBUTES || !(folder & FILE_ATTRIBUTE_DIRECTORY))
        return refuse(why, "%s: cannot be written: its folder is not there", path);
    if (exists != INVALID_FILE_ATTRIBUTES && exists & FILE_ATTRIBUTE_READONLY)
        return refuse(why, "%s: cannot be written: it is protected", path);
    return true;
}

bool file_same_target(const char *path, const char *other) {
    wchar_t *a = wide_path(path), *b = wide_path(other);
    const bool same = a && b && CompareStringOrdinal(a, -1, b, -1, TRUE) == CSTR_EQUAL &&
                      wcsncmp(a, L"\\\\.", 3) != 0; // writing to a device replaces nothing
    free(a), free(b);
    return same;
}

static bool write_all(HANDLE file, const file_part *parts, size_t part_count) {
    for (size_t p = 0; p < part_count; p++) {
        const unsigned char *from = parts[p].bytes;
        for (size_t left = parts[p].count; left;) {
            DWORD put = 0;
            const size_t most = left < TRANSFER_BYTES ? left : TRANSFER_BYTES;
            if (!WriteFile(file, from, (DWORD)most, &put, NULL) || !put) return false;
            from += put;
            left -= put;
        }
    }
    return true;
}

// Write a temporary file beside the target, then rename it.
static bool replace(const wchar_t *target, const file_part *parts, size_t part_count) {
    const size_t room = wcslen(target) + 40;
    wchar_t *temporary = malloc(room * sizeof *temporary);
    if (!temporary) return SetLastError(ERROR_NOT_ENOUGH_MEMORY), false;
    const wchar_t *slash = wcsrchr(target, L'\\');
    (void)_snwprintf(temporary, room, L"%.*ls.clattn-%lx-%lx", slash ? (int)(slash - target) + 1 : 0, target,
                     GetCurrentProcessId(), GetTickCount());
    const HANDLE file =
        CreateFileW(temporary, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    bool done = file != INVALID_HANDLE_VALUE && write_all(file, parts, part_count) && FlushFileBuffers(file);
    DWORD failure = done ? 0 : GetLastError();
    const bool made = file != INVALID_HANDLE_VALUE;
    if (made && !CloseHandle(file) && done) done = false, failure = GetLastError();
    if (done && !MoveFileExW(temporary, target, MOVEFILE_REPLACE_EXISTING))
        done = false, failure = GetLastError();
    if (!done && made) (void)DeleteFileW(temporary);
    free(temporary);
    SetLastError(failure);
    return done;
}

bool file_write_parts(const char *path, const file_part *parts, size_t part_count, reason why) {
    if (!file_can_write(path, why)) return false;
    wchar_t *wide = wide_path(path);
    bool done = false;
    if (wide && wcsncmp(wide, L"\\\\.", 3) == 0) { // NUL, CON
        const HANDLE device = CreateFileW(wide, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                                          OPEN_EXISTING, 0, NULL);
        done = device != INVALID_HANDLE_VALUE && write_all(device, parts, part_count);
        if (device != INVALID_HANDLE_VALUE) (void)CloseHandle(device);
    } else if (wide) {
        done = replace(wide, parts, part_count);
    }
    if (!done) (void)refuse_last(why, path);
    free(wide);
    return done;
}
