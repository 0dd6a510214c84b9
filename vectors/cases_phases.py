"""Cases of trials, shadows, pauses, and the phases resume and failed. Written by hand, expected values too."""

from records import (
    ALL, both, BY_COHORT, BY_SESSION, case, cohort, ctx, DEFAULT, DEGRADED, DENIED, deny, ENTRY,
    failed, FIXED, force, GLOBAL, LATE, MINE, MINIMAL, NOW, OMIT, one, operator, resume,
    RUNS_DEGRADED, RUNS_GLOBAL, scoped, session, SHADOW, shadow_block, shadowed, trial,
    trial_fields, TRIED,
)


def cases_of_the_trial():
    def sent(name, percentage, session_id, **changes):
        case(name, [trial(percentage, **changes)], one(session_id), TRIED, "iv-001")

    def kept(name, percentage, session_id, **changes):
        case(name, [trial(percentage, **changes)], one(session_id), BY_COHORT, "iv-001")

    # trial buckets of iv-001: sess-000012 4784, -000006 8183, -000001 11352, -000002 42500
    sent("a_selected_session_gets_the_candidate", 12, "sess-000001")
    kept("a_session_not_selected_keeps_the_default", 11, "sess-000001")
    kept("a_bucket_equal_to_the_threshold_is_not_selected", 11.352, "sess-000001")
    sent("a_bucket_just_under_the_threshold_is_selected", 11.353, "sess-000001")
    kept("zero_percent_selects_nobody", 0, "sess-106662")
    sent("the_smallest_step_selects_bucket_zero", 0.001, "sess-106662")
    sent("half_a_percent_selects_bucket_499", 0.5, "sess-002554")
    kept("half_a_percent_does_not_select_bucket_500", 0.5, "sess-009483")
    sent("a_fractional_percentage_selects_bucket_33299", 33.3, "sess-060655")
    kept("a_fractional_percentage_does_not_select_bucket_33300", 33.3, "sess-012761")
    # 2.007 * 1000 = 2007.0000000000002 and 8.014 * 1000 = 8013.999999999999 in floating point
    kept("a_product_rounded_up_does_not_select_its_bucket", 2.007, "sess-008508")
    sent("a_thousandth_above_a_product_rounded_up_selects_its_bucket", 2.008, "sess-008508")
    sent("a_product_rounded_down_selects_the_bucket_below", 8.014, "sess-249642")
    kept("a_product_rounded_down_does_not_select_its_bucket", 8.014, "sess-215552")
    sent("a_thousandth_above_a_product_rounded_down_selects_its_bucket", 8.015, "sess-215552")
    sent("five_percent_selects_bucket_4999", 5, "sess-077910")
    kept("five_percent_does_not_select_bucket_5000", 5, "sess-056425")
    sent("hundred_percent_selects_the_last_bucket", 100, "sess-084897")
    kept("just_under_hundred_percent_leaves_the_last_bucket", 99.999, "sess-084897")
    kept("a_trial_without_percentage_selects_nobody", OMIT, "sess-106662")
    for percentage, sessions in ((5, 1), (10, 2), (25, 3), (50, 4), (100, 4)):
        for i, session_id in enumerate(("sess-000012", "sess-000006", "sess-000001",
                                        "sess-000002")):
            name = f"growth_at_{percentage}_percent_of_{session_id.replace('-', '_')}"
            (sent if i < sessions else kept)(name, percentage, session_id)
    kept("an_empty_session_id_is_never_selected", 100, "")
    case("a_missing_session_id_is_never_selected", [trial(100)], one(OMIT), BY_COHORT, "iv-001")
    case("a_null_session_id_is_never_selected", [trial(100)], one(None), BY_COHORT, "iv-001")
    # with salt 2: sess-000001 34653, sess-000016 3116 (58436 without)
    sent("an_empty_salt_selects_the_first_subset", 20, "sess-000001")
    kept("a_new_salt_leaves_the_first_subset_alone", 20, "sess-000001", attempt_salt="2")
    kept("an_empty_salt_leaves_the_second_subset_alone", 20, "sess-000016")
    sent("a_new_salt_selects_the_second_subset", 20, "sess-000016", attempt_salt="2")
    sent("a_missing_salt_is_the_empty_one", 12, "sess-000001", attempt_salt=OMIT)
    sent("a_null_salt_is_the_empty_one", 12, "sess-000001", attempt_salt=None)
    kept("a_missing_salt_does_not_select_more", 11, "sess-000001", attempt_salt=OMIT)
    # trial bucket of iv-002: sess-000001 43256
    case("another_override_selects_another_subset",
         [cohort("iv-002", {"region": "eu-west"}, **trial_fields(20))], one("sess-000001"),
         BY_COHORT, "iv-002")
    sent("a_unicode_session_id_is_hashed_as_utf_8", 77.688, "日本")
    kept("a_unicode_session_id_is_not_selected_at_its_bucket", 77.687, "日本")
    sent("a_session_id_outside_the_basic_plane_is_hashed_as_utf_8", 61.878, "\U0001f600")
    kept("a_session_id_outside_the_basic_plane_is_not_selected_at_its_bucket", 61.877,
         "\U0001f600")
    sent("a_session_id_with_a_combining_mark_is_hashed_as_it_is", 72.457, "e\u0301")
    kept("a_precomposed_session_id_is_hashed_as_it_is", 72.457, "\u00e9")
    case("a_trial_of_a_new_version_gives_its_schema",
         [trial(100, candidate_schema_ref=FIXED, primary_schema_ref=FIXED)], one("sess-000001"),
         (FIXED, "trial", "trial"), "iv-001")
    case("a_trial_out_of_scope_gives_the_global_schema", [trial(100)],
         one("sess-000001", region="us-east"), DEFAULT)
    case("the_attempt_of_a_trial_is_carried", [trial(100, attempt=3)], one("sess-000001"), TRIED,
         "iv-001", attempt=3)
    case("a_trial_keeps_its_losers", [trial(100), scoped("ovr_g", ALL, created_at=LATE)],
         one("sess-000001"), TRIED, "iv-001", losers=["ovr_g"])
    case("a_trial_loses_to_a_session_record",
         [trial(100), session("ovr_s", scope={"kind": "session", "session_id": "sess-000001"})],
         one("sess-000001"), BY_SESSION, "ovr_s", losers=["iv-001"])
    case("a_trial_not_selected_does_not_fall_to_the_next_record",
         [trial(11), scoped("ovr_g", ALL, schema_ref=MINIMAL)], one("sess-000001"), BY_COHORT,
         "iv-001", losers=["ovr_g"])
    case("a_trial_is_denied", [trial(100), deny("ovr_d", ALL)], one("sess-000001"), DENIED,
         "ovr_d", losers=["iv-001"])
    own = {"kind": "session", "session_id": "sess-000001"}
    case("a_trial_on_the_session_selected",
         [session("iv-001", scope=own, **trial_fields(12))], one("sess-000001"), TRIED, "iv-001")
    case("a_trial_on_the_session_not_selected",
         [session("iv-001", scope=own, **trial_fields(11))], one("sess-000001"), BY_SESSION,
         "iv-001")
    case("a_trial_on_the_graph_scope", [scoped("iv-001", ALL, **trial_fields(12))],
         one("sess-000001"), TRIED, "iv-001")


def cases_of_the_shadow():
    def runs(name, record, session_id):
        case(name, [record], one(session_id), BY_COHORT, "iv-001", shadow=SHADOW)

    def rests(name, record, session_id):
        case(name, [record], one(session_id), BY_COHORT, "iv-001")

    # shadow buckets of iv-001: sess-000016 3798, -000022 5418, -000001 13636
    runs("a_selected_session_runs_the_shadow", shadowed(14), "sess-000001")
    rests("a_session_not_selected_runs_no_shadow", shadowed(13), "sess-000001")
    rests("a_shadow_bucket_equal_to_the_threshold_is_not_selected", shadowed(13.636),
          "sess-000001")
    runs("a_shadow_bucket_just_under_the_threshold_is_selected", shadowed(13.637), "sess-000001")
    rests("zero_percent_runs_no_shadow", shadowed(0), "sess-006160")
    runs("five_percent_runs_the_shadow_of_bucket_4999", shadowed(5), "sess-034532")
    rests("five_percent_runs_no_shadow_of_bucket_5000", shadowed(5), "sess-211826")
    runs("hundred_percent_runs_the_shadow_of_the_last_bucket", shadowed(100), "sess-058046")
    runs("probes_at_5_percent_take_the_first", shadowed(5), "sess-000016")
    rests("probes_at_5_percent_leave_the_second", shadowed(5), "sess-000022")
    runs("probes_at_10_percent_keep_the_first", shadowed(10), "sess-000016")
    runs("probes_at_10_percent_take_the_second", shadowed(10), "sess-000022")
    rests("an_empty_session_id_runs_no_shadow", shadowed(100), "")
    rests("a_pending_shadow_does_not_run",
          shadowed(100, shadow=shadow_block(100, status="pending")), "sess-000001")
    rests("a_stopped_shadow_does_not_run",
          shadowed(100, shadow=shadow_block(100, status="stopped")), "sess-000001")
    rests("a_shadow_of_unknown_status_does_not_run",
          shadowed(100, shadow=shadow_block(100, status="draining")), "sess-000001")
    rests("a_shadow_without_status_does_not_run",
          shadowed(100, shadow=shadow_block(100, status=OMIT)), "sess-000001")
    rests("a_null_shadow_does_not_run", shadowed(100, shadow=None), "sess-000001")
    # with salt 2: sess-000001 shadow bucket 92173
    rests("a_new_salt_changes_the_shadow_subset", shadowed(14, attempt_salt="2"), "sess-000001")
    runs("a_new_salt_selects_by_its_own_bucket", shadowed(93, attempt_salt="2"), "sess-000001")
    case("a_session_record_may_run_a_shadow",
         [session("iv-001", scope={"kind": "session", "session_id": "sess-000001"},
                  shadow=shadow_block(14))],
         one("sess-000001"), BY_SESSION, "iv-001", shadow=SHADOW)
    case("only_the_winner_runs_its_shadow",
         [shadowed(100), cohort("ovr_c", {"region": "eu-west", "tenant": "t-7"})],
         one("sess-000001"), BY_COHORT, "ovr_c", losers=["iv-001"])
    case("a_trial_session_runs_no_shadow", [trial(100, shadow=shadow_block(100))],
         one("sess-000001"), TRIED, "iv-001")
    case("a_session_outside_the_trial_runs_the_shadow", [trial(0, shadow=shadow_block(100))],
         one("sess-000001"), BY_COHORT, "iv-001", shadow=SHADOW)
    # sess-000004: trial 224, shadow 65709; sess-000016: trial 58436, shadow 3798
    case("selected_for_the_trial_does_not_mean_for_the_shadow",
         [shadowed(5)], one("sess-000004"), BY_COHORT, "iv-001")
    case("selected_for_the_shadow_does_not_mean_for_the_trial",
         [trial(5, shadow=shadow_block(5))], one("sess-000016"), BY_COHORT, "iv-001",
         shadow=SHADOW)


def cases_of_the_pause():
    eu = {"region": "eu-west"}
    case("a_pause_gives_its_schema_ref", [cohort("ovr_c", eu, kind="pause")], ctx(), BY_COHORT,
         "ovr_c", kind="pause")
    case("a_pause_without_schema_ref_gives_the_global_schema",
         [cohort("ovr_c", eu, kind="pause", schema_ref=OMIT)], ctx(),
         (GLOBAL, "degraded", "cohort"), "ovr_c", kind="pause")
    case("a_pause_with_null_schema_ref_gives_the_global_schema",
         [cohort("ovr_c", eu, kind="pause", schema_ref=None)], ctx(graph_version="v2"),
         ("refund_graph:v2", "degraded", "cohort"), "ovr_c", kind="pause")
    case("a_pause_on_the_session", [session("ovr_s", kind="pause", schema_ref=OMIT)], ctx(),
         (GLOBAL, "degraded", "session"), "ovr_s", kind="pause")
    case("a_pause_on_the_graph_scope", [scoped("ovr_g", ALL, kind="pause", schema_ref=OMIT)],
         ctx(), (GLOBAL, "degraded", "cohort"), "ovr_g", kind="pause")
    case("a_pause_runs_no_shadow", [shadowed(100, kind="pause")], one("sess-000001"), BY_COHORT,
         "iv-001", kind="pause")
    case("a_forced_pause", [force("ovr_f", ALL, kind="pause", schema_ref=OMIT)], ctx(),
         (GLOBAL, "degraded", "force"), "ovr_f", kind="pause")
    both("a_pause_has_no_precedence_of_its_own",
         [cohort("ovr_z", {"region": "eu-west", "app_version": "6.4.1"}),
          cohort("ovr_p", eu, kind="pause", created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_p"])
    both("a_pause_with_more_dimensions_wins",
         [cohort("ovr_z", {"region": "eu-west", "app_version": "6.4.1"}, kind="pause",
                 schema_ref=OMIT),
          cohort("ovr_c", eu, created_at=LATE)],
         ctx(), (GLOBAL, "degraded", "cohort"), "ovr_z", losers=["ovr_c"], kind="pause")
    case("a_deny_ends_a_pause", [cohort("ovr_p", eu, kind="pause"), deny("ovr_d", ALL)], ctx(),
         DENIED, "ovr_d", losers=["ovr_p"])
    case("a_deny_of_kind_pause_replaces", [deny("ovr_d", ALL, kind="pause")], ctx(), DENIED,
         "ovr_d")


def cases_of_resume():
    eu = {"region": "eu-west"}
    case("resume_keeps_the_global_schema", [], resume(GLOBAL), RUNS_GLOBAL)
    case("resume_keeps_a_degraded_schema_without_record", [], resume(DEGRADED), RUNS_DEGRADED)
    case("resume_without_current_is_start", [session("ovr_s"), cohort("ovr_c", eu)],
         ctx("resume"), BY_SESSION, "ovr_s", losers=["ovr_c"])
    case("resume_with_null_current_is_start", [session("ovr_s"), cohort("ovr_c", eu)],
         resume(None), BY_SESSION, "ovr_s", losers=["ovr_c"])
    case("resume_without_current_and_record_gives_the_default", [], ctx("resume"), DEFAULT)
    case("resume_without_current_is_denied", [session("ovr_s"), deny("ovr_d", ALL)],
         ctx("resume"), DENIED, "ovr_d", losers=["ovr_s"])
    case("resume_without_current_takes_the_trial", [trial(12)], one("sess-000001", "resume"),
         TRIED, "iv-001")
    case("resume_without_current_runs_the_shadow", [shadowed(14)], one("sess-000001", "resume"),
         BY_COHORT, "iv-001", shadow=SHADOW)
    case("resume_without_current_gives_no_entry_point", [session("ovr_s", run_id="run_1")],
         ctx("resume"), BY_SESSION, "ovr_s")
    case("resume_on_what_start_gives_carries_its_override",
         [session("ovr_s", attempt=1), cohort("ovr_c", eu)], resume(DEGRADED), RUNS_DEGRADED,
         "ovr_s", attempt=1)
    case("resume_on_the_global_schema_is_not_moved", [session("ovr_s")], resume(GLOBAL),
         RUNS_GLOBAL)
    case("resume_on_the_global_schema_is_not_moved_by_a_cohort", [cohort("ovr_c", eu)],
         resume(GLOBAL), RUNS_GLOBAL)
    case("resume_on_another_degraded_schema_is_not_moved", [session("ovr_s")], resume(MINIMAL),
         (MINIMAL, "degraded", "current"))
    case("resume_on_a_losers_schema_carries_no_override",
         [session("ovr_s"), cohort("ovr_c", eu, schema_ref=MINIMAL)], resume(MINIMAL),
         (MINIMAL, "degraded", "current"))
    case("resume_after_the_override_expired_stays_degraded",
         [session("ovr_s", expires_at=NOW)], resume(DEGRADED), RUNS_DEGRADED)
    case("resume_on_a_forced_schema_carries_the_force", [force("ovr_f", ALL)], resume(MINIMAL),
         (MINIMAL, "degraded", "current"), "ovr_f")
    case("resume_is_not_moved_by_a_force", [force("ovr_f", ALL)], resume(GLOBAL), RUNS_GLOBAL)
    case("resume_is_not_moved_by_a_deny", [deny("ovr_d", ALL), session("ovr_s")],
         resume(DEGRADED), RUNS_DEGRADED)
    case("resume_on_the_global_schema_carries_a_deny", [deny("ovr_d", ALL), session("ovr_s")],
         resume(GLOBAL), RUNS_GLOBAL, "ovr_d")
    case("resume_on_the_global_schema_carries_a_force_to_it",
         [force("ovr_f", ALL, schema_ref=GLOBAL)], resume(GLOBAL),
         (GLOBAL, "degraded", "current"), "ovr_f")
    case("resume_on_an_old_version_counts_as_degraded", [], resume(GLOBAL, graph_version="v2"),
         (GLOBAL, "degraded", "current"))
    case("resume_on_the_candidate_carries_the_trial", [trial(12)],
         one("sess-000001", "resume", current_schema_ref=GLOBAL), (GLOBAL, "trial", "current"),
         "iv-001")
    case("resume_on_the_global_schema_outside_the_trial_is_primary", [trial(11)],
         one("sess-000001", "resume", current_schema_ref=GLOBAL), RUNS_GLOBAL)
    case("resume_on_the_default_outside_the_trial_carries_the_override", [trial(11)],
         one("sess-000001", "resume", current_schema_ref=DEGRADED), RUNS_DEGRADED, "iv-001")
    case("resume_on_the_default_is_not_moved_into_the_trial", [trial(12)],
         one("sess-000001", "resume", current_schema_ref=DEGRADED), RUNS_DEGRADED)
    fixed = [trial(12, candidate_schema_ref=FIXED, primary_schema_ref=FIXED)]
    case("resume_on_a_new_version_carries_its_trial", fixed,
         one("sess-000001", "resume", current_schema_ref=FIXED), (FIXED, "trial", "current"),
         "iv-001")
    case("resume_on_a_new_version_outside_its_trial_carries_no_override", fixed,
         one("sess-000002", "resume", current_schema_ref=FIXED), (FIXED, "degraded", "current"))
    case("resume_carries_the_shadow", [shadowed(14)],
         one("sess-000001", "resume", current_schema_ref=DEGRADED), RUNS_DEGRADED, "iv-001",
         shadow=SHADOW)
    case("resume_on_another_schema_runs_no_shadow", [shadowed(14)],
         one("sess-000001", "resume", current_schema_ref=GLOBAL), RUNS_GLOBAL)
    case("resume_carries_a_pause", [cohort("ovr_c", eu, kind="pause")], resume(DEGRADED),
         RUNS_DEGRADED, "ovr_c", kind="pause")
    case("resume_on_the_global_schema_carries_a_pause_without_schema_ref",
         [cohort("ovr_c", eu, kind="pause", schema_ref=OMIT)], resume(GLOBAL),
         (GLOBAL, "degraded", "current"), "ovr_c", kind="pause")
    case("resume_on_another_schema_carries_no_pause", [cohort("ovr_c", eu, kind="pause")],
         resume(GLOBAL), RUNS_GLOBAL)


def cases_of_failure():
    eu = {"region": "eu-west"}

    def moved(name, overrides, context, **more):
        case(name, overrides, context, BY_SESSION, "ovr_s", **{"entry_point": ENTRY, **more})

    moved("failed_takes_the_session_record_of_its_run", [session("ovr_s")], failed(GLOBAL))
    moved("failed_without_current_takes_the_session_record", [session("ovr_s")], ctx("failed"))
    moved("failed_carries_the_attempt", [session("ovr_s", attempt=2)], failed(GLOBAL), attempt=2)
    moved("failed_without_entry_point_gives_null", [session("ovr_s", entry_point=OMIT)],
          failed(GLOBAL), entry_point=None)
    case("failed_does_not_take_a_record_of_another_run", [session("ovr_s", run_id="run_76")],
         failed(GLOBAL), RUNS_GLOBAL)
    moved("failed_null_run_equals_null_run", [session("ovr_s", run_id=None)],
          failed(GLOBAL, run_id=None))
    moved("failed_missing_run_equals_missing_run", [session("ovr_s", run_id=OMIT)],
          failed(GLOBAL, run_id=OMIT))
    moved("failed_missing_run_equals_null_run", [session("ovr_s", run_id=None)],
          failed(GLOBAL, run_id=OMIT))
    case("failed_null_run_of_the_record_is_no_wildcard", [session("ovr_s", run_id=None)],
         failed(GLOBAL), RUNS_GLOBAL)
    case("failed_null_run_of_the_context_is_no_wildcard", [session("ovr_s")],
         failed(GLOBAL, run_id=None), RUNS_GLOBAL)
    both("failed_passes_over_a_newer_record_of_another_run",
         [session("ovr_s"), session("ovr_n", tenant=None, run_id="run_76", schema_ref=MINIMAL,
                                    created_at=LATE)],
         failed(GLOBAL), BY_SESSION, "ovr_s", entry_point=ENTRY, losers=["ovr_n"])
    both("failed_takes_the_newer_of_two_records_of_its_run",
         [session("ovr_s", created_at=LATE), session("ovr_a", tenant=None, schema_ref=MINIMAL)],
         failed(GLOBAL), BY_SESSION, "ovr_s", entry_point=ENTRY, losers=["ovr_a"])
    both("failed_takes_the_smaller_id_of_two_equal_records_of_its_run",
         [session("ovr_s"), session("ovr_t", tenant=None, schema_ref=MINIMAL)],
         failed(GLOBAL), BY_SESSION, "ovr_s", entry_point=ENTRY, losers=["ovr_t"])
    moved("failed_takes_the_session_record_over_a_cohort",
          [session("ovr_s"), cohort("ovr_c", eu, created_at=LATE)], failed(GLOBAL),
          losers=["ovr_c"])
    case("failed_takes_a_session_record_of_an_operator",
         [operator("ovr_o", "degraded", MINE, schema_ref=MINIMAL, run_id="run_77",
                   entry_point=ENTRY)],
         failed(GLOBAL), (MINIMAL, "degraded", "session"), "ovr_o", entry_point=ENTRY)
    moved("failed_on_the_same_schema_takes_the_record_again", [session("ovr_s")],
          failed(DEGRADED))
    case("failed_is_denied", [session("ovr_s"), deny("ovr_d", ALL)], failed(DEGRADED), DENIED,
         "ovr_d", losers=["ovr_s"])
    case("failed_without_session_record_is_denied", [deny("ovr_d", MINE, attempt=1)],
         failed(DEGRADED), DENIED, "ovr_d", attempt=1)
    both("failed_takes_the_best_deny",
         [deny("ovr_z", {"kind": "cohort", "region": "eu-west"}),
          deny("ovr_d", ALL, created_at=LATE), session("ovr_s")],
         failed(GLOBAL), DENIED, "ovr_z", losers=["ovr_d", "ovr_s"])
    moved("failed_ignores_an_automatic_deny",
          [session("ovr_s"), deny("ovr_d", ALL, source="auto")], failed(GLOBAL))
    moved("failed_ignores_an_expired_deny",
          [session("ovr_s"), deny("ovr_d", ALL, expires_at=NOW)], failed(GLOBAL))
    moved("failed_does_not_take_a_force", [session("ovr_s"), force("ovr_f", ALL)],
          failed(GLOBAL), losers=["ovr_f"])
    case("failed_does_not_take_a_force_on_the_session",
         [force("ovr_f", MINE, run_id="run_77", entry_point=ENTRY)], failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_cohort", [cohort("ovr_c", eu)], failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_cohort_without_run", [cohort("ovr_c", eu)],
         failed(GLOBAL, run_id=OMIT), RUNS_GLOBAL)
    case("failed_on_a_cohorts_schema_carries_no_override", [cohort("ovr_c", eu)],
         failed(DEGRADED), RUNS_DEGRADED)
    case("failed_without_record_keeps_the_global_schema", [], failed(GLOBAL), RUNS_GLOBAL)
    case("failed_without_record_keeps_the_degraded_schema", [], failed(DEGRADED), RUNS_DEGRADED)
    case("failed_without_record_and_current_gives_the_global_schema", [], ctx("failed"),
         RUNS_GLOBAL)
    case("failed_without_record_and_with_null_current_gives_the_global_schema", [], failed(None),
         RUNS_GLOBAL)
    case("failed_with_a_cohort_and_without_current_gives_the_global_schema",
         [cohort("ovr_c", eu)], ctx("failed"), RUNS_GLOBAL)
    case("failed_on_an_old_version_counts_as_degraded", [], failed(GLOBAL, graph_version="v2"),
         (GLOBAL, "degraded", "current"))
    case("failed_does_not_take_an_expired_record", [session("ovr_s", expires_at=NOW)],
         failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_record_of_another_tenant", [session("ovr_s", tenant="t-8")],
         failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_record_of_another_session",
         [session("ovr_s", scope={"kind": "session", "session_id": "sess_9"})], failed(GLOBAL),
         RUNS_GLOBAL)
    own = {"kind": "session", "session_id": "sess-000001"}
    case("failed_runs_no_shadow",
         [session("iv-001", scope=own, shadow=shadow_block(100))],
         one("sess-000001", "failed", current_schema_ref=GLOBAL), BY_SESSION, "iv-001",
         entry_point=ENTRY)
    case("failed_does_not_send_a_session_into_a_trial",
         [session("iv-001", scope=own, **trial_fields(100))],
         one("sess-000001", "failed", current_schema_ref=GLOBAL), BY_SESSION, "iv-001",
         entry_point=ENTRY)
    case("failed_in_a_trial_keeps_the_global_schema_without_override", [trial(100)],
         one("sess-000001", "failed", current_schema_ref=GLOBAL), RUNS_GLOBAL)
    moved("failed_in_a_trial_takes_the_session_record",
          [session("ovr_s", scope=own), trial(100)],
          one("sess-000001", "failed", current_schema_ref=GLOBAL), losers=["iv-001"])
    moved("failed_takes_a_pause", [session("ovr_s", kind="pause")], failed(GLOBAL), kind="pause")
    case("failed_takes_a_pause_without_schema_ref",
         [session("ovr_s", kind="pause", schema_ref=OMIT, entry_point=OMIT)], failed(GLOBAL),
         (GLOBAL, "degraded", "session"), "ovr_s", kind="pause")
